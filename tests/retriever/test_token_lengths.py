"""Token vectors have the lengths of an index wherever its model encodes documents."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding, rounding
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig, SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.evaluation.evaluate import evaluate_model
from xtr_tf.evaluation.evaluator import EvaluationSettings
from xtr_tf.index.folder import TokenIndex
from xtr_tf.model.folder import save_encoder
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.building import build_parts
from xtr_tf.retriever.export import export_retriever
from xtr_tf.retriever.signatures import build_signatures
from xtr_tf.runtime import SavedModelSession
from xtr_tf.scoring.reference import maxima_of_hits, xtr_scores
from xtr_tf.vectors.document_encoder import DocumentEncoder
from xtr_tf.vectors.token_lengths import UNIT_LENGTH, TokenLengths

LENGTHS = TokenLengths(length_penalty=0.3, repetition_bonus=0.2)
TEXTS = [
    "A river.",
    "The Nile is a river that flows north. " * 3,
    "A lake is deep, and a river is long. " * 9,
]
# float16 vectors, in sums of 16 products.
TOLERANCE = 2.0**-10 + rounding(16)


@pytest.fixture(scope="module")
def root(tiny_corpus, tmp_path_factory) -> Path:
    """A folder with a corpus and an encoder."""
    root: Path = tmp_path_factory.mktemp("lengths")
    save_encoder(root / "encoder", tiny_corpus.encoder, tiny_corpus.tokenizer)
    corpus = root / "corpus.tsv"
    corpus.write_text("".join(f"{number}\t{text}\n" for number, text in enumerate(TEXTS)), "utf-8")
    return root


def build(root: Path, name: str, lengths: TokenLengths, kind: str = "exact"):
    config = EncodingConfig(**lengths._asdict())
    return build_parts(root / "corpus.tsv", root / "encoder", root / name, config, IndexConfig(kind=kind))


@pytest.fixture(scope="module")
def parts(root, tiny_corpus):
    """Signatures of a model whose index has lengths, and the vectors of its documents."""
    config = EncodingConfig(**LENGTHS._asdict())
    built = build(root, "work", LENGTHS)
    assembly = assemble_retriever(
        root / "encoder", built.vectors.directory, built.index.directory, SearchDefaults(k_prime=8)
    )
    encoder = DocumentEncoder(tiny_corpus.encoder, tiny_corpus.tokenizer, config)
    vectors = [document.vectors.astype(np.float32) for document in encoder.encode(TEXTS)]
    return build_signatures(assembly.retriever), vectors, assembly.card


def test_search_ranks_by_the_stored_vectors(parts):
    signatures, vectors, card = parts
    assert {name: card.corpus[name] for name in LENGTHS._fields} == LENGTHS._asdict()
    query = tf.constant(["a long river"])
    encoded = signatures["encode_query"](query)
    similarities = encoded["encodings"][0].numpy() @ np.concatenate(vectors).T
    owners = np.repeat(np.arange(len(TEXTS)), [len(own) for own in vectors])
    hits = np.argsort(-similarities, axis=1, kind="stable")[:, :8]
    scores = np.take_along_axis(similarities, hits, axis=1)
    maxima = maxima_of_hits(scores, owners[hits], len(TEXTS))
    [expected] = xtr_scores(maxima, maxima > -np.inf, scores[:, -1])
    found = signatures["search"](query)
    order = [int(key) for key in found["document_ids"].numpy()[0] if key]
    np.testing.assert_allclose(
        found["scores"].numpy()[0, : len(order)], expected[order], rtol=0, atol=TOLERANCE
    )
    assert list(np.argsort(-expected, kind="stable")[: len(order)]) == order


def test_a_model_encodes_and_scores_documents_as_its_index_has_them(parts):
    signatures, vectors, _ = parts
    encoded = signatures["encode_document"](tf.constant(TEXTS[:2]))
    for own, row, mask in zip(vectors, encoded["encodings"].numpy(), encoded["mask"].numpy(), strict=False):
        np.testing.assert_allclose(row[mask], own, rtol=0, atol=2.0**-10 + network_rounding(700))
    query = tf.constant(["a long river"])
    tokens = signatures["encode_query"](query)["encodings"][0].numpy()
    scores = signatures["score"](query, tf.constant([TEXTS[:2]]))["scores"].numpy()[0]
    expected = [(tokens @ own.T).max(axis=1).mean() for own in vectors[:2]]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2 * TOLERANCE)


def test_vectors_and_index_must_have_the_same_lengths(root, parts):
    plain = build(root, "plain", UNIT_LENGTH)
    assert "token_lengths" not in (root / "plain" / "index" / "manifest.json").read_text()
    assert TokenIndex.open(root / "work" / "index").manifest.token_lengths == LENGTHS
    with pytest.raises(InputError, match=r"another length penalty.*\(0.0, 0.0\) in the index"):
        assemble_retriever(root / "encoder", root / "work" / "vectors", plain.index.directory)
    shutil.rmtree(root / "plain" / "vectors")
    again = build(root, "plain", LENGTHS)  # must not take the index of the earlier vectors
    assert again.index.manifest.token_lengths == LENGTHS


@pytest.mark.parametrize("kind", ["core", "scann"])
def test_the_gate_accepts_an_export_with_lengths(root, kind):
    built = build(root, kind, LENGTHS, kind)
    assembly = assemble_retriever(root / "encoder", built.vectors.directory, built.index.directory)
    exported = export_retriever(assembly.retriever, root / f"{kind}-models", assembly.card)
    assert not exported.report.problems
    with SavedModelSession(exported.directory) as session:
        answer = session.run("encode_document", {"document": TEXTS[:1]})
    norms = np.linalg.norm(answer["encodings"][answer["mask"]], axis=1)
    assert norms.min() > 1  # a short document


def test_an_exported_model_is_evaluated_with_its_own_lengths(root, parts, tmp_path):
    settings = EvaluationSettings(length_penalty=0.1)
    with pytest.raises(InputError, match="An exported model has the lengths of its index"):
        evaluate_model(root / "core-models", [], tmp_path / "report", settings)
