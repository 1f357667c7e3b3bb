"""The reference searcher, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import assert_same_ranking, rounding
from xtr_tf.errors import InputError
from xtr_tf.index.searchers import exact as exact_searcher
from xtr_tf.index.searchers.exact import ExactSearcher


@pytest.fixture
def vectors():
    return np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)


@pytest.mark.parametrize("k_prime", [1, 7, 1500, 3000, 9999])
@pytest.mark.parametrize("max_similarities", [1, 1 << 24])
def test_equals_numpy_for_any_block_size(monkeypatch, vectors, queries, k_prime, max_similarities):
    monkeypatch.setattr(exact_searcher, "_MAX_SIMILARITIES", max_similarities)
    hits = tf.function(ExactSearcher(vectors).search)(queries, tf.constant(k_prime), tf.constant(0))
    similarities = queries @ vectors.T
    tolerance = rounding(16, (np.abs(queries) @ np.abs(vectors.T)).max())
    for row, found in zip(similarities, hits.token_ids.numpy(), strict=True):
        assert_same_ranking(row, found, 2 * tolerance)
    own = np.take_along_axis(similarities, hits.token_ids.numpy(), 1)
    np.testing.assert_allclose(hits.scores, own, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(hits.cutoffs, hits.scores[:, -1])
    assert hits.valid.numpy().all()


@pytest.mark.parametrize(("dtype", "bytes_a_value"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
def test_keeps_the_dtype_asked_for(vectors, queries, dtype, bytes_a_value):
    searcher = ExactSearcher(vectors, dtype)
    assert searcher.vectors.dtype.size == bytes_a_value
    hits = searcher.search(queries, tf.constant(10), tf.constant(0))
    # A product of a value kept with 8 bits is 2**-8 of itself away at most.
    error = 2.0**-8 * (np.abs(queries) @ np.abs(vectors.T)).max(axis=1, keepdims=True)
    expected = -np.sort(-(queries @ vectors.T), axis=1)[:, :10]
    assert (np.abs(hits.scores - expected) <= error).all()


def test_equal_scores_are_ranked_by_token_order():
    searcher = ExactSearcher(np.ones((9, 2), np.float32))
    hits = searcher.search(tf.ones([2, 2]), tf.constant(4), tf.constant(0))
    assert hits.token_ids.numpy().tolist() == [[0, 1, 2, 3]] * 2


def test_no_query_tokens_give_no_rows(vectors):
    hits = ExactSearcher(vectors).search(tf.zeros([0, 16]), tf.constant(4), tf.constant(0))
    assert hits.token_ids.shape[0] == 0
    assert hits.cutoffs.shape == [0]


@pytest.mark.parametrize(
    ("k_prime", "leaves", "value", "sentence"),
    [(0, 0, 1.0, "k_prime"), (-3, 0, 1.0, "k_prime"), (1, -1, 1.0, "leaves"), (1, 0, np.nan, "finite")],
)
def test_bad_requests_are_refused_inside_the_graph(vectors, k_prime, leaves, value, sentence):
    search = tf.function(ExactSearcher(vectors).search)
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        search(tf.fill([2, 16], value), tf.constant(k_prime), tf.constant(leaves))


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.zeros((0, 4), np.float32), "at least one token"),
        (np.full((3, 4), np.nan, np.float32), "finite"),
        (np.zeros((3, 4), np.int32), "array of floats"),
        (np.zeros(3, np.float32), "array of floats"),
    ],
)
def test_unusable_vectors_are_refused(bad, sentence):
    with pytest.raises(InputError, match=sentence):
        ExactSearcher(bad)
