"""Explanations add up to the score, and point at the right characters."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding

QUERIES = ["highest mountain on earth", "東京"]


@pytest.fixture(scope="module")
def explained(signatures):
    answer = signatures["explain"](tf.constant(QUERIES), k_prime=tf.constant([60]), top_k=tf.constant([8]))
    return {name: value.numpy() for name, value in answer.items()}


def test_token_scores_add_up_to_the_document_score(signatures, explained):
    mask = signatures["encode_query"](tf.constant(QUERIES))["mask"].numpy()
    sums = explained["token_scores"].sum(axis=2)
    assert (
        explained["token_scores"][~np.broadcast_to(mask[:, None], sums.shape + mask.shape[1:])] == 0
    ).all()
    np.testing.assert_allclose(
        sums / mask.sum(axis=1, keepdims=True), explained["scores"], rtol=0, atol=rounding(16)
    )
    found = signatures["search"](tf.constant(QUERIES), k_prime=tf.constant([60]), top_k=tf.constant([8]))
    np.testing.assert_array_equal(found["document_ids"], explained["document_ids"])


def test_some_are_retrieved_and_some_imputed(explained):
    assert explained["retrieved"].any(axis=2).all()
    assert not explained["retrieved"].all()
    imputed = ~explained["retrieved"]
    assert (explained["document_pieces"][imputed] == b"").all()
    assert (explained["starts"][imputed] == -1).all()
    assert (explained["document_pieces"][explained["retrieved"]] != b"").all()


def test_matches_are_the_best_retrieved_tokens(explained, signatures, tiny_corpus):
    encodings = signatures["encode_query"](tf.constant(QUERIES))["encodings"].numpy()
    ordinals = {record.id.encode(): ordinal for ordinal, record in enumerate(tiny_corpus.documents)}
    for query, rank, token in np.argwhere(explained["retrieved"]):
        own = tiny_corpus.document_of_token == ordinals[explained["document_ids"][query, rank]]
        best = (tiny_corpus.vectors[own] @ encodings[query, token]).max()
        assert explained["token_scores"][query, rank, token] == pytest.approx(best, abs=rounding(32))


def test_spans_point_at_the_piece(explained):
    """A span's characters, lower-cased, are its piece's, whose space is written as ▁."""
    checked = 0
    for query, rank, token in np.argwhere(explained["retrieved"]):
        title, text = (explained[name][query, rank].decode() for name in ("titles", "texts"))
        piece = explained["document_pieces"][query, rank, token].decode()
        if piece in ("</s>", "<unk>"):
            continue
        span = slice(explained["starts"][query, rank, token], explained["limits"][query, rank, token])
        shown = f"{title} {text}"[span].lower().strip()
        if piece.isascii() or (piece.startswith("▁") and piece[1:].isascii()):
            assert piece.removeprefix("▁") == shown
            checked += 1
    assert checked > 10


def test_pieces_of_the_query(explained, tiny_corpus):
    ids = tiny_corpus.tokenizer.ragged(tf.constant(QUERIES), 16)
    for query, row in enumerate(ids):
        expected = tiny_corpus.tokenizer.pieces(row).numpy().tolist()
        pieces = explained["query_pieces"][query].tolist()
        assert pieces == expected + [b""] * (len(pieces) - len(expected))


def test_without_a_token_table(tiny_corpus):
    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.retriever.retriever import Retriever
    from xtr_tf.retriever.signatures import build_signatures
    from xtr_tf.retriever.tables import DocumentTable

    searcher = ExactSearcher(tiny_corpus.vectors)
    documents = DocumentTable(tiny_corpus.documents)
    plain = Retriever(
        tiny_corpus.encoder, tiny_corpus.tokenizer, searcher, tiny_corpus.document_of_token, documents
    )
    answer = build_signatures(plain)["explain"](tf.constant(QUERIES))
    assert answer["retrieved"].numpy().any()
    assert set(answer["document_pieces"].numpy().ravel()) == {b""}
    assert (answer["starts"].numpy() == -1).all()


@pytest.mark.parametrize("imputation", ["zero", "constant", "none"])
def test_what_was_imputed_is_shown(signatures, imputation):
    answer = signatures["explain"](
        tf.constant(QUERIES),
        k_prime=tf.constant([60]),
        imputation=tf.constant([imputation]),
        constant=tf.constant([0.25]),
    )
    mask = signatures["encode_query"](tf.constant(QUERIES))["mask"].numpy()
    imputed = ~answer["retrieved"].numpy() & mask[:, None, :]
    assert set(answer["token_scores"].numpy()[imputed]) == {0.25 if imputation == "constant" else 0.0}
