"""Query tokens weighted by how rare their pieces are: score(D) = sum of w_i s_i / sum of w_i."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.retriever.test_search_signatures import TOLERANCE, assert_ranked, encode
from tests.support.numbers import rounding
from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.index.searchers.exact import ExactSearcher
from xtr_tf.retriever.piece_weights import PieceWeights
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.tables import DocumentTable
from xtr_tf.scoring.reference import idf_weights, maxima_of_hits, xtr_scores

QUERIES = ["highest mountain of the earth", "wie lang ist der Nil?", "東京"]
IDF = tf.constant(["idf"])


def own_weights(corpus, query: str) -> np.ndarray:
    """By counting, for every piece of the query, the documents that have it."""
    pieces = corpus.tokenizer.ragged(tf.constant([query]), 16).values.numpy()
    count = len(corpus.documents)
    owners = [set(corpus.document_of_token[corpus.pieces == piece].tolist()) for piece in pieces]
    return np.array([np.log(1 + (count - len(own) + 0.5) / (len(own) + 0.5)) for own in owners])


def reference(corpus, vectors, weights, k_prime, imputation="top_k_prime"):
    similarities = vectors @ corpus.vectors.T
    hits = np.argsort(-similarities, axis=1, kind="stable")[:, :k_prime]
    scores = np.take_along_axis(similarities, hits, axis=1)
    maxima = maxima_of_hits(scores, corpus.document_of_token[hits], len(corpus.documents))
    cutoffs = scores[:, -1]
    return xtr_scores(maxima, maxima > -np.inf, cutoffs, imputation=imputation, weights=weights)[0]


@pytest.mark.parametrize("imputation", ["top_k_prime", "none"])
def test_search_ranks_as_the_definition_says(signatures, tiny_corpus, imputation):
    found = signatures["search"](
        tf.constant(QUERIES),
        k_prime=tf.constant([50]),
        imputation=tf.constant([imputation]),
        token_weights=IDF,
    )
    encodings, mask = encode(signatures, QUERIES)
    changed = 0
    for position, query in enumerate(QUERIES):
        vectors, weights = encodings[position][mask[position]], own_weights(tiny_corpus, query)
        expected = reference(tiny_corpus, vectors, weights, 50, imputation)
        assert_ranked(tiny_corpus, dict(enumerate(expected)), found["document_ids"].numpy()[position])
        best = np.sort(expected)[::-1][:5]
        np.testing.assert_allclose(found["scores"].numpy()[position], best, rtol=0, atol=2 * TOLERANCE)
        unweighted = reference(tiny_corpus, vectors, None, 50, imputation)
        changed += not np.allclose(best, np.sort(unweighted)[::-1][:5], atol=1e-4)
    assert changed == len(QUERIES)


def test_a_request_can_turn_it_on_and_off(signatures):
    mixed = signatures["search"](tf.constant(QUERIES), token_weights=tf.constant(["idf", "none", "idf"]))
    for value, rows in (("idf", [0, 2]), ("none", [1])):
        same = signatures["search"](tf.constant(QUERIES), token_weights=tf.constant([value] * 3))
        np.testing.assert_array_equal(mixed["scores"].numpy()[rows], same["scores"].numpy()[rows])
    plain = signatures["search"](tf.constant(QUERIES))
    np.testing.assert_array_equal(mixed["scores"].numpy()[1], plain["scores"].numpy()[1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="`token_weights` must be one of none, idf"):
        signatures["search"](tf.constant(QUERIES), token_weights=tf.constant(["tf"]))


def test_explanations_show_the_weights(signatures, tiny_corpus):
    explained = signatures["explain"](tf.constant(QUERIES), k_prime=tf.constant([60]), token_weights=IDF)
    explained = {name: value.numpy() for name, value in explained.items()}
    for position, query in enumerate(QUERIES):
        expected = own_weights(tiny_corpus, query)
        ours = explained["weights"][position]
        np.testing.assert_allclose(ours[: len(expected)], expected, rtol=rounding(8))
        assert (ours[len(expected) :] == 0).all()
        sums = (explained["token_scores"][position] * ours).sum(axis=1) / ours.sum()
        np.testing.assert_allclose(sums, explained["scores"][position], rtol=0, atol=rounding(16))
    plain = signatures["explain"](tf.constant(QUERIES[:1]))["weights"].numpy()
    assert set(plain.ravel()) == {1.0}


def test_rescoring_is_weighted(signatures, tiny_corpus):
    found = signatures["search"](
        tf.constant(QUERIES), top_k=tf.constant([4]), rescore=tf.constant([60]), token_weights=IDF
    )
    encodings, mask = encode(signatures, QUERIES)
    for position, query in enumerate(QUERIES):
        vectors, weights = encodings[position][mask[position]], own_weights(tiny_corpus, query)
        expected = reference(tiny_corpus, vectors, weights, len(tiny_corpus.vectors))  # f_ColBERT
        best = np.sort(expected)[::-1][:4]
        np.testing.assert_allclose(found["scores"].numpy()[position], best, rtol=0, atol=2 * TOLERANCE)


def test_vectors_may_bring_weights_of_their_own(signatures, tiny_corpus):
    encodings, mask = encode(signatures, QUERIES)
    weights = signatures["explain"](tf.constant(QUERIES), token_weights=IDF)["weights"]
    by_text = signatures["search"](tf.constant(QUERIES), token_weights=IDF)
    search = signatures["search_vectors"]
    by_vectors = search(tf.constant(encodings), tf.constant(mask), weights=weights)
    np.testing.assert_array_equal(by_vectors["document_ids"], by_text["document_ids"])
    plain = search(tf.constant(encodings), tf.constant(mask))
    twos = search(tf.constant(encodings), tf.constant(mask), weights=tf.constant([[2.0]]))
    np.testing.assert_allclose(twos["scores"], plain["scores"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.0, -1.0]], "finite, not negative, and not all 0"),
        ([[0.0, 0.0]], "finite, not negative, and not all 0"),
        ([[float("nan"), 1.0]], "finite, not negative, and not all 0"),
        ([[float("inf"), 1.0]], "finite, not negative, and not all 0"),
        ([[1.0, 1.0, 1.0]], "dimensions of `mask`"),
    ],
)
def test_bad_weights(signatures, weights, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["search_vectors"](
            tf.ones([1, 2, 32]), tf.ones([1, 2], tf.bool), weights=tf.constant(weights)
        )


@pytest.mark.parametrize("with_background", [False, True])
def test_the_graph_weighs_as_numpy_does(with_background):
    frequencies = np.array([0, 1, 40, 999, 1000], np.int32)
    background = np.array([0.4, 0.0, 0.01, 1.0, 0.0], np.float32) if with_background else None
    weights = PieceWeights(frequencies, 1000, background)
    expected = idf_weights(frequencies, 1000, background)
    ids = np.arange(5).reshape(1, 5)
    ours = weights.idf(tf.constant(ids)).numpy()[0]
    np.testing.assert_allclose(ours, expected, rtol=rounding(8), atol=rounding(8))
    assert (expected > 0).all()
    if with_background:
        assert expected[0] < expected[1]  # common elsewhere, though no document has it
    else:
        assert expected[0] == pytest.approx(np.log(1 + 1000.5 / 0.5))
        assert (np.diff(expected) < 0).all()


def test_an_index_that_counted_nothing(tiny_corpus):
    from xtr_tf.retriever.signatures import build_signatures

    def build(defaults):
        return Retriever(
            tiny_corpus.encoder,
            tiny_corpus.tokenizer,
            ExactSearcher(tiny_corpus.vectors),
            tiny_corpus.document_of_token,
            DocumentTable(tiny_corpus.documents),
            defaults=defaults,
        )

    with pytest.raises(
        InputError, match=r"`token_weights` needs an index that has counted .* Received: 'idf'"
    ):
        build(SearchDefaults(token_weights="idf"))
    search = build_signatures(build(None))["search"]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="`token_weights` needs an index that has counted"
    ):
        search(tf.constant(QUERIES), token_weights=IDF)
    assert np.isfinite(search(tf.constant(QUERIES))["scores"]).all()
