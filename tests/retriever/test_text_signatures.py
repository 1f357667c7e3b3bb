"""Encoding and exact scoring of given texts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding, rounding

# What the encoder's sums may differ by in batches of different shapes, and then those of a score.
ENCODED = network_rounding(700)
SCORED = ENCODED + rounding(32 + 16)

QUERIES = ["highest mountain", "東京"]
DOCUMENTS = [
    ["Mount Everest is a mountain.", "The Nile flows north.", ""],
    ["Tokyo lies in Japan. " * 40, "東京は日本の首都です。", "  "],
]


def test_encodings_are_the_encoders(signatures, tiny_corpus):
    for name, key, tokenize in (
        ("encode_query", "query", tiny_corpus.tokenizer.tokenize_queries),
        ("encode_document", "document", tiny_corpus.tokenizer.tokenize_documents),
    ):
        texts = tf.constant([documents[0] for documents in DOCUMENTS])
        encoded = signatures[name](**{key: texts})
        ids = tokenize(texts)
        length = encoded["mask"].shape[1]
        np.testing.assert_array_equal(encoded["ids"], ids[:, :length])
        np.testing.assert_array_equal(encoded["mask"], tiny_corpus.encoder.mask(ids)[:, :length])
        np.testing.assert_allclose(
            encoded["encodings"], tiny_corpus.encoder(ids)[:, :length], rtol=0, atol=ENCODED
        )
        norms = np.linalg.norm(encoded["encodings"], axis=-1)
        np.testing.assert_allclose(norms, encoded["mask"].numpy().astype(float), rtol=0, atol=rounding(32))


def test_score_is_exact_colbert(signatures):
    scores = signatures["score"](tf.constant(QUERIES), tf.constant(DOCUMENTS))["scores"].numpy()
    for row, query in enumerate(QUERIES):
        encoded = signatures["encode_query"](tf.constant([query]))
        vectors = encoded["encodings"].numpy()[0]
        for column, text in enumerate(DOCUMENTS[row]):
            if not text.strip():
                assert np.isneginf(scores[row, column])
                continue
            tokens = signatures["encode_document"](tf.constant([text]))["encodings"].numpy()[0]
            assert scores[row, column] == pytest.approx((vectors @ tokens.T).max(axis=1).mean(), abs=SCORED)


def test_documents_that_were_cut_are_reported(signatures, tiny_corpus):
    length = tiny_corpus.tokenizer.config.document_length
    word = "Nile "

    def count(text: str) -> int:
        return int(tiny_corpus.tokenizer.ragged(tf.constant([text]), 10**6).row_lengths()[0])

    fits = next(word * n for n in range(length, 0, -1) if count(word * n) <= length)
    longer = fits + word
    assert count(fits) <= length < count(longer)
    encoded = signatures["encode_document"](tf.constant([fits, longer, ""]))
    assert encoded["truncated"].numpy().tolist() == [False, True, False]
    scored = signatures["score"](tf.constant(["Nile"]), tf.constant([[longer, fits]]))
    assert scored["truncated"].numpy().tolist() == [[True, False]]


@pytest.mark.parametrize("count", [0, 1, 16, 17, 40])
def test_any_number_of_documents(signatures, count):
    texts = [f"text number {number}" for number in range(count)]
    scores = signatures["score"](
        tf.constant(["number 3"]), tf.reshape(tf.constant(texts, tf.string), [1, count])
    )
    assert scores["scores"].shape == [1, count]
    for position in range(0, count, 13):
        alone = signatures["score"](tf.constant(["number 3"]), tf.constant([[texts[position]]]))["scores"]
        assert float(alone[0, 0]) == pytest.approx(float(scores["scores"][0, position]), abs=SCORED)


def test_searching_everything_is_exact_colbert(signatures, tiny_corpus):
    """With every token retrieved, the index gives what scoring the documents' texts gives."""
    found = signatures["search"](tf.constant(QUERIES), k_prime=tf.constant([2**30]), top_k=tf.constant([5]))
    texts = {record.id.encode(): f"{record.title} {record.text}" for record in tiny_corpus.documents}
    documents = [[texts[identifier] for identifier in row] for row in found["document_ids"].numpy()]
    exact = signatures["score"](tf.constant(QUERIES), tf.constant(documents))["scores"]
    np.testing.assert_allclose(found["scores"], exact, rtol=0, atol=2 * SCORED)
