"""BM25 by term postings, against `bm25s` over the same terms."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index import term_postings
from xtr_tf.index.build import build_index
from xtr_tf.index.term_postings import IMPACT_SCALE, K1, B, TermPostings, write_term_postings
from xtr_tf.index.update import update_index
from xtr_tf.index.vector_source import ArrayVectors
from xtr_tf.lexical.keys import find_terms
from xtr_tf.lexical.terms import Analyser, character_ngrams, words
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.vectors.store import TokenVectors

QUERIES = [
    "highest mountain on earth",
    "wie lang ist der Nil, der Nil?",
    "東京タワー",
    "กรุงเทพ",
    "zzz qqq",
    "",
]


@pytest.fixture(scope="module")
def documents(repository: Path) -> list[DocumentRecord]:
    lines = (repository / "examples" / "atlas" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [DocumentRecord.of(Document.from_fields(json.loads(line))) for line in lines[::7]]


@pytest.mark.parametrize(("lexical", "analyse"), [("words", words), ("ngrams", character_ngrams)])
def test_scores_are_those_of_bm25s(
    documents: list[DocumentRecord],
    lexical: str,
    analyse: Analyser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import bm25s

    monkeypatch.setattr(term_postings, "_BLOCK", 5_000)  # several blocks
    postings = TermPostings.of(documents, lexical)
    theirs = bm25s.BM25(k1=K1, b=B, method="lucene")
    theirs.index([analyse(document.full_text) for document in documents], show_progress=False)
    for query in QUERIES:
        terms = [term for term in analyse(query) if term in theirs.vocab_dict]
        expected = theirs.get_scores(terms) if terms else np.zeros(len(documents))
        # Half a step of an impact, times the idf of the rarest term there is, per term.
        most = len(terms) * np.log1p(len(documents)) / (2 * IMPACT_SCALE) + 1e-5
        assert np.abs(postings.scores(query, lexical) - expected).max() <= most
    assert postings.scores("mountain", lexical).max() > 1


def test_blocks_do_not_matter(
    documents: list[DocumentRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, block in (("whole", 1 << 23), ("pieces", 300)):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(term_postings, "_BLOCK", block)
        write_term_postings(documents, "words", tmp_path / folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pieces", "whole"]
    for name in term_postings.FILES:
        whole, pieces = ((tmp_path / folder / f"{name}.npy").read_bytes() for folder in ("whole", "pieces"))
        assert whole == pieces


def test_a_refresh_makes_the_postings_of_a_build(
    make_vectors: Callable[..., TokenVectors], tmp_path: Path
) -> None:
    config = IndexConfig(kind="exact", lexical="words")
    index = build_index(
        make_vectors("last", [f"d{number}" for number in range(40)]), tmp_path / "index", config
    )
    kept = np.arange(40) % 3 > 0
    last = TokenVectors.open(tmp_path / "last").shards
    vectors = TokenVectors.write(
        tmp_path / "next",
        [
            _without(shard.arrays(), kept[np.array([int(d.id[1:]) for d in shard.documents()])])
            for shard in last
        ],
        "fingerprint",
    )
    updated = update_index(index, vectors, kept, tmp_path / "updated")
    built = build_index(vectors, tmp_path / "built", config)
    for name in term_postings.FILES:
        assert np.array_equal(updated.array(name), built.array(name))
    assert TermPostings.read(built) is not None


def _without(arrays: object, kept: np.ndarray) -> object:
    of_tokens = np.repeat(kept, arrays.passage_tokens)
    return dataclasses.replace(
        arrays,
        documents=[document for document, stays in zip(arrays.documents, kept, strict=True) if stays],
        **{name: getattr(arrays, name)[of_tokens] for name in ("vectors", "pieces", "spans", "positions")},
        passage_tokens=arrays.passage_tokens[kept],
        passage_documents=np.arange(kept.sum(), dtype=np.int32),
    )


def test_texts_are_needed(documents: list[DocumentRecord], tmp_path: Path) -> None:
    without = [dataclasses.replace(document, text=None) for document in documents]
    with pytest.raises(InputError, match="needs the texts of all documents"):
        write_term_postings(without, "words", tmp_path)
    source = ArrayVectors(np.ones((4, 8), np.float32), np.arange(4))
    with pytest.raises(InputError, match="vectors that come with their documents"):
        build_index(source, tmp_path / "index", IndexConfig(kind="exact", lexical="words"))
    with pytest.raises(InputError, match="must be one of none, words, ngrams"):
        IndexConfig(lexical="stems")  # type: ignore[arg-type]


@pytest.mark.parametrize("lexical", ["words", "ngrams"])
def test_parts_score_as_the_whole(
    documents: list[DocumentRecord], lexical: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_postings, "_POSTINGS", 1_000)  # several blocks
    whole = TermPostings.of(documents, lexical)
    bounds = [0, 1, len(documents) // 3, len(documents)]
    parts = [whole.part(*own) for own in itertools.pairwise(bounds)]
    assert [part.num_documents for part in parts] == np.diff(bounds).tolist()
    assert sum(len(part.documents) for part in parts) == len(whole.documents)
    for query in QUERIES:
        expected = whole.scores(query, lexical)
        found = np.concatenate([part.scores(query, lexical) for part in parts])
        np.testing.assert_array_equal(found, expected)
        # Also in the graph: the same terms in the same order.
        scores = [
            np.asarray(LexicalPart(part, lexical).scores(keys(query, lexical))) for part in (whole, *parts)
        ]
        np.testing.assert_array_equal(np.concatenate(scores[1:]), scores[0])


def keys(query: str, lexical: str) -> np.ndarray:
    return find_terms([query], lexical).keys


def test_a_part_without_terms_has_no_scores() -> None:
    records = [
        DocumentRecord.of(Document(str(number), text)) for number, text in enumerate(["a b", "…", "b"])
    ]
    part = TermPostings.of(records, "words").part(1, 2)
    assert len(part.terms) == 0
    assert np.asarray(LexicalPart(part, "words").scores(keys("b", "words"))).tolist() == [0]
