"""Shards in one model, compared with the same index without shards."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import assert_same_ranking, rounding
from xtr_tf.errors import InputError
from xtr_tf.index.searchers.exact import ExactSearcher
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.index.searchers.sharded import ShardedSearcher


def search(searcher, queries, k_prime, leaves=0):
    return tf.function(searcher.search)(queries, tf.constant(k_prime), tf.constant(leaves))


@pytest.mark.parametrize("k_prime", [1, 70, 3_999, 10**6])
def test_exact_shards_equal_one_exact_index(vectors, queries, k_prime):
    shards = [ExactSearcher(part) for part in np.split(vectors, [5, 1_000, 3_000])]
    found = search(ShardedSearcher(shards), queries, k_prime)
    expected = search(ExactSearcher(vectors), queries, k_prime)
    assert found.token_ids.shape == expected.token_ids.shape
    tolerance = rounding(vectors.shape[1])
    for row, ids in zip(queries @ vectors.T, found.token_ids.numpy(), strict=True):
        assert_same_ranking(row, ids, 2 * tolerance)
    np.testing.assert_allclose(found.cutoffs, expected.cutoffs, rtol=0, atol=tolerance)
    assert found.valid.numpy().all()


@pytest.mark.parametrize("kind", ["scann", "core"])
def test_shards_of_an_index_find_the_same_tokens(make_index, queries, kind):
    one, three = (searcher_from_index(make_index(kind=kind, num_shards=shards)) for shards in (1, 3))
    assert len(three.shards) == 3
    assert three.num_tokens == one.num_tokens
    found, expected = (search(searcher, queries, 100, 10**6) for searcher in (three, one))
    for ids, other in zip(found.token_ids.numpy(), expected.token_ids.numpy(), strict=True):
        assert len(set(ids) & set(other)) >= 98
    np.testing.assert_allclose(found.cutoffs, expected.cutoffs, atol=0.01)


@pytest.mark.parametrize("kind", ["core", "scann", "exact"])
def test_shards_keep_the_vectors_of_one_index(make_index, kind):
    fields = {"kind": kind, "reordering": kind == "scann"}
    one, three = (searcher_from_index(make_index(num_shards=shards, **fields)) for shards in (1, 3))
    tokens = tf.constant([3_999, 0, 2_500, 1_400, 0])
    np.testing.assert_allclose(three.vectors_of(tokens), one.vectors_of(tokens), atol=1e-6)


def test_codes_are_not_vectors(make_index):
    searcher = searcher_from_index(make_index(kind="scann", num_shards=2))
    assert searcher.vectors_of(tf.constant([0])) is None


def test_searchers_of_different_width_are_refused(vectors):
    with pytest.raises(InputError, match="width"):
        ShardedSearcher([ExactSearcher(vectors), ExactSearcher(vectors[:, :4])])
    with pytest.raises(InputError, match="at least one"):
        ShardedSearcher([])
