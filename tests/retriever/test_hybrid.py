"""Hybrid search: terms and BM25 in the graph, and fused rankings, against the NumPy twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.lexical.test_keys import TEXTS
from tests.support.numbers import rounding
from xtr_tf.config.retrieval import IndexConfig, SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.searchers.exact import ExactSearcher
from xtr_tf.index.term_postings import TermPostings
from xtr_tf.lexical.keys import find_terms
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.query_terms import TermFinder
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.session import RetrieverSession
from xtr_tf.retriever.tables import DocumentTable
from xtr_tf.scoring.fusion_reference import fuse
from xtr_tf.vectors.store import TokenVectors

Signatures = dict[str, Callable[..., Any]]
QUERIES = ["highest mountain on earth", "wie lang ist der Nil?", "東京の人口は?", "zzzz"]
# Of sums of similarities as long as a vector, and a few more.
TOLERANCE = rounding(200, 1.0)


@pytest.mark.parametrize("lexical", ["words", "ngrams"])
def test_the_graph_finds_the_terms_of_every_script(lexical: str) -> None:
    find = tf.function(TermFinder(lexical), input_signature=[tf.TensorSpec([None], tf.string)])
    every = [f"{chr(code)}x" for code in range(1, 0x33000) if not 0xD800 <= code < 0xE000]
    for texts in (TEXTS, every, ["a\0b", "\ufeffx \ufffe"], [""], []):
        found, expected = find(tf.constant(texts, tf.string)), find_terms(texts, lexical)
        assert np.array_equal(found.keys, expected.keys)
        assert np.array_equal(found.queries, expected.texts)
    assert np.array_equal(find(tf.constant([b"\xff ab \xe3\x81"])).keys, find_terms(["ab"], lexical).keys)


def test_bm25_in_the_graph_is_that_of_the_postings(tiny_postings: TermPostings) -> None:
    part = LexicalPart(tiny_postings, "ngrams")
    for query in (*QUERIES, ""):
        expected = tiny_postings.scores(query, "ngrams")
        keys = part.terms_of(tf.constant([query])).keys
        assert np.abs(part.scores(keys) - expected).max() <= rounding(len(keys) + 1, expected.max(initial=1))


def test_documents_without_terms_have_no_scores() -> None:
    nothing = TermPostings(
        np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.uint8), 3
    )
    part = LexicalPart(nothing, "words")
    assert part.scores(part.terms_of(tf.constant(["any words"])).keys).numpy().tolist() == [0, 0, 0]


def expected_scores(
    signatures: Signatures, retriever: Any, postings: TermPostings, query: str, alpha: float, **asked: Any
) -> dict[str, float]:
    """Fused scores of all candidates, from a search without BM25 for all documents and the NumPy twins."""
    fusion = asked.pop("fusion", "weighted")
    names = [name.decode() for name in retriever.documents.ids.numpy()]
    answer = search(signatures, [query], top_k=len(names), **asked)
    found = dict(zip(answer["document_ids"][0].tolist(), answer["scores"][0].tolist(), strict=True))
    xtr = np.array([[found.get(name.encode(), -np.inf) for name in names]])
    hits = signatures["search_tokens"](query=tf.constant([query]))
    floor = np.array([np.mean(hits["cutoffs"].numpy()[0][hits["mask"].numpy()[0]])])
    fused = fuse(xtr, postings.scores(query, "ngrams")[np.newaxis], floor, alpha, fusion)[0]
    return {name: score for name, score in zip(names, fused.tolist(), strict=True) if score > -np.inf}


def search(signatures: Signatures, queries: list[str], **asked: Any) -> dict[str, np.ndarray]:
    inputs = {name: tf.constant(np.atleast_1d(value)) for name, value in asked.items()}
    for name, value in asked.items():
        if isinstance(value, float):
            inputs[name] = tf.constant([value], tf.float32)
        elif isinstance(value, int):
            inputs[name] = tf.constant([value], tf.int32)
    answer = signatures["search"](query=tf.constant(queries), **inputs)
    return {name: value.numpy() for name, value in answer.items()}


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_rankings_are_those_of_the_reference(
    signatures: Signatures, tiny_retriever: Any, tiny_postings: TermPostings, alpha: float, fusion: str
) -> None:
    answer = search(signatures, QUERIES, alpha=alpha, fusion=fusion, top_k=20)
    for row, query in enumerate(QUERIES):
        expected = expected_scores(signatures, tiny_retriever, tiny_postings, query, alpha, fusion=fusion)
        found = [name.decode() for name in answer["document_ids"][row] if name]
        assert len(found) == min(20, len(expected))
        best = sorted(expected.values(), reverse=True)[: len(found)]
        assert answer["scores"][row, : len(found)] == pytest.approx(best, abs=TOLERANCE)
        assert [expected[name] for name in found] == pytest.approx(best, abs=TOLERANCE)
        bm25 = tiny_postings.scores(query, "ngrams")
        names = [name.decode() for name in tiny_retriever.documents.ids.numpy()]
        assert answer["lexical_scores"][row, : len(found)] == pytest.approx(
            [bm25[names.index(name)] for name in found], abs=rounding(50, bm25.max() + 1)
        )
    assert (answer["scores"][3] == -np.inf).all() == (alpha == 1), "only XTR finds something for zzzz"


def test_each_query_gets_its_own_answer(signatures: Signatures) -> None:
    alphas = np.array([0.0, 0.5, 1.0, 0.2], np.float32)
    fusions = np.array(["rrf", "weighted", "rrf", "rrf"])
    rescores, top_ks = np.array([0, 8, 0, 6], np.int32), np.array([4, 3, 12, 6], np.int32)
    asked = {"alpha": alphas, "fusion": fusions, "rescore": rescores, "top_k": top_ks}
    together = search(signatures, QUERIES, **asked)
    for row, query in enumerate(QUERIES):
        alone = search(signatures, [query], **{name: values[[row]] for name, values in asked.items()})
        found = alone["document_ids"].shape[1]
        assert together["document_ids"][row, :found].tolist() == alone["document_ids"][0].tolist()
        assert (together["document_ids"][row, found:] == b"").all()
        for name in ("scores", "xtr_scores", "lexical_scores"):
            np.testing.assert_allclose(together[name][row, :found], alone[name][0], atol=TOLERANCE, rtol=1e-6)
    plain = search(signatures, QUERIES[:1], top_k=4)
    assert together["scores"][0, :4].tolist() == pytest.approx(plain["scores"][0].tolist(), abs=TOLERANCE)
    assert plain["xtr_scores"].tolist() == plain["scores"].tolist()
    assert not plain["lexical_scores"].any()


def test_filters_and_lowest_scores_hold_for_both(signatures: Signatures) -> None:
    query = QUERIES[:1]
    answer = search(signatures, query, alpha=0.5, top_k=50, filter="group=g1")
    groups = {field for field in answer["fields"][0] if field}
    assert groups
    assert all(b'"g1"' in field for field in groups)
    threshold = float(answer["scores"][0, 3])
    above = search(signatures, query, alpha=0.5, top_k=50, filter="group=g1", min_score=threshold)
    assert (above["document_ids"][0] != b"").sum() == 4
    assert (above["xtr_scores"][0, 4:] == -np.inf).all()


def test_what_was_rescored_has_its_exact_score(signatures: Signatures, tiny_retriever: Any) -> None:
    answer = search(signatures, QUERIES[:1], alpha=0.5, rescore=20, top_k=5)
    plain = search(signatures, QUERIES[:1], rescore=100, top_k=100)
    exact = dict(zip(plain["document_ids"][0], plain["scores"][0], strict=True))
    for name, score in zip(answer["document_ids"][0], answer["xtr_scores"][0], strict=True):
        assert score == pytest.approx(exact[name], abs=rounding(64, 1.0))
    assert (np.diff(answer["scores"][0]) <= 0).all()


def test_explanations_are_of_the_same_documents(signatures: Signatures) -> None:
    asked = {"alpha": tf.constant([0.6]), "query": tf.constant(QUERIES[:1])}
    explained, found = signatures["explain"](**asked), signatures["search"](**asked)
    for name in ("document_ids", "scores", "lexical_scores"):
        assert explained[name].numpy().tolist() == found[name].numpy().tolist()


def test_hits_come_with_bm25_of_their_documents_and_of_the_best_others(
    signatures: Signatures, tiny_retriever: Any, tiny_postings: TermPostings
) -> None:
    encoded = signatures["encode_query"](tf.constant(QUERIES))
    top_k = [3, 500, 1, 20]
    filters = ["", "group=g1", "group=g1|g2", "group=nothing"]
    answer = {
        name: value.numpy()
        for name, value in signatures["search_hybrid_tokens"](
            encoded["encodings"],
            encoded["mask"],
            tf.constant(QUERIES),
            k_prime=tf.constant([9]),
            filter=tf.constant(filters),
            top_k=tf.constant(top_k),
        ).items()
    }
    groups = np.array(
        [field.decode().split('"group": "')[1][:2] for field in tiny_retriever.documents.fields.numpy()]
    )
    for row, query in enumerate(QUERIES):
        allowed = np.array([filters[row] == "" or group in filters[row] for group in groups])
        assert answer["allowed_documents"][row] == allowed.sum()
        bm25 = np.where(allowed, tiny_postings.scores(query, "ngrams"), 0)
        close = rounding(50, bm25.max() + 1)
        with_hit = answer["ordinals"][row] >= 0
        own = answer["ordinals"][row][with_hit]
        assert answer["lexical_scores"][row][with_hit] == pytest.approx(bm25[own], abs=close)
        others, scores = answer["other_ordinals"][row], answer["other_scores"][row]
        found = others >= 0
        bm25[own] = 0
        assert found.sum() == min(top_k[row], np.count_nonzero(bm25))
        assert not found[found.sum() :].any()
        assert not scores[~found].any()
        assert scores[found] == pytest.approx(bm25[others[found]], abs=close)
        assert scores[found] == pytest.approx(-np.sort(-bm25)[: found.sum()], abs=close)


def test_hits_need_a_text_for_every_query(signatures: Signatures) -> None:
    encoded = signatures["encode_query"](tf.constant(QUERIES))
    with pytest.raises(tf.errors.InvalidArgumentError, match="`query` must have one text for every row"):
        signatures["search_hybrid_tokens"](encoded["encodings"], encoded["mask"], tf.constant(QUERIES[:2]))
    nothing = signatures["search_hybrid_tokens"](
        encoded["encodings"][:0], encoded["mask"][:0], tf.constant([], tf.string)
    )
    assert nothing["other_ordinals"].shape[0] == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"alpha": 1.5}, "`alpha` must be between 0"),
        ({"alpha": float("nan")}, "`alpha` must be between 0"),
        ({"fusion": "sum"}, "`fusion` must be one of weighted, rrf"),
    ],
)
def test_bad_requests(signatures: Signatures, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        search(signatures, QUERIES[:1], **asked)


def test_a_model_without_bm25_says_so(tiny_corpus: Any) -> None:
    parts = (
        tiny_corpus.encoder,
        tiny_corpus.tokenizer,
        ExactSearcher(tiny_corpus.vectors),
        tiny_corpus.document_of_token,
        DocumentTable(tiny_corpus.documents),
    )
    session = RetrieverSession(Retriever(*parts, defaults=SearchDefaults(100, 5)))
    assert "lexical_scores" not in session.run("search", {"query": QUERIES[:1], "alpha": [0.0]})
    message = "`alpha` needs an index with BM25: built with `lexical` words or ngrams. Received: 0.5."
    with pytest.raises(InputError, match=message):
        session.run("search", {"query": QUERIES[:1], "alpha": [0.5]})
    with pytest.raises(InputError, match="`alpha` needs an index with BM25"):
        Retriever(*parts, defaults=SearchDefaults(alpha=0.5))
    for impossible in ({"alpha": 1.5}, {"fusion": "sum"}):
        with pytest.raises(InputError, match="must be"):
            SearchDefaults(**impossible)  # type: ignore[arg-type]


def test_an_index_with_postings_makes_a_hybrid_model(directories: Path, tmp_path: Path) -> None:
    vectors = TokenVectors.open(directories / "vectors")
    build_index(vectors, tmp_path / "index", IndexConfig(kind="exact", lexical="words"))
    defaults = SearchDefaults(100, 5, alpha=0.5)
    assembly = assemble_retriever(directories / "encoder", vectors.directory, tmp_path / "index", defaults)
    session = RetrieverSession(assembly.retriever)
    first = next(vectors.documents())
    [found] = session.run("serving_default", {"query": [first.title]})["document_ids"].tolist()
    asked = session.run("search", {"query": [first.title], "alpha": [0.5]})
    assert found == asked["document_ids"][0].tolist()
    assert found[0] == first.id.encode()
