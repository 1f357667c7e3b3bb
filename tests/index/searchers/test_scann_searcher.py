"""ScaNN over an assembled index, against exact search and against ScaNN's own builder."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scann.scann_ops.py import scann_ops

from tests.support.numbers import assert_same_ranking, rounding
from xtr_tf.errors import InputError
from xtr_tf.index.anisotropic import decode
from xtr_tf.index.searchers import scann as scann_searcher
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.index.searchers.scann import ScannSearcher


def recall(found, expected) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, expected, strict=True)]))


def search(searcher, queries, k_prime, leaves=0):
    hits = tf.function(searcher.search)(queries, tf.constant(k_prime), tf.constant(leaves))
    return [part.numpy() for part in hits]


def test_scores_are_those_of_the_decoded_vectors(make_index, queries):
    index = make_index()
    ids, scores, valid, cutoffs = search(searcher_from_index(index), queries, 50, 10**6)
    packed = index.array("codes")
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
    decoded = decode(codes, index.array("centres"), index.array("cells"), index.array("codebook"))
    similarities = queries @ decoded.T
    assert valid.all()
    # ScaNN sums lookup tables of 8 bits. They are rounded; truncated, they are up to .0047 off.
    np.testing.assert_allclose(scores, np.take_along_axis(similarities, ids, axis=1), atol=0.004)
    assert recall(ids, np.argsort(-similarities, axis=1)[:, :50]) > 0.9
    np.testing.assert_array_equal(cutoffs, scores[:, -1])


@pytest.mark.parametrize("reordering", [False, True])
def test_finds_what_scanns_own_builder_finds(make_index, vectors, queries, reordering):
    index = make_index(reordering=reordering, num_leaves=100)
    ours = search(searcher_from_index(index), queries, 50, 100)[0]
    builder = scann_ops.builder(vectors, 50, "dot_product")
    builder = builder.tree(100, 100, training_sample_size=4000, min_partition_size=1)
    builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
    if reordering:
        builder = builder.reorder(100, quantize=True)
    theirs = builder.build().search_batched(queries)[0].numpy()
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :50]
    assert recall(ours, exact) > recall(theirs, exact) - 0.03
    assert recall(ours, exact) > (0.95 if reordering else 0.75)


def test_reordering_brings_scores_close_to_the_exact_ones(make_index, vectors, queries):
    ids, scores, *_ = search(searcher_from_index(make_index(reordering=True)), queries, 20, 10**6)
    exact = np.take_along_axis(queries @ vectors.T, ids, axis=1)
    np.testing.assert_allclose(scores, exact, atol=0.01)


@pytest.mark.parametrize("split_from", [0, 10**9])
def test_parts_searched_at_the_same_time_change_nothing(make_index, queries, monkeypatch, split_from):
    monkeypatch.setattr(scann_searcher, "_SPLIT_FROM", split_from)
    tolerance = rounding(queries.shape[1])
    ids, scores, *_ = search(searcher_from_index(make_index(parallel_searches=1)), queries, 60, 5)
    alone = np.full((len(queries), 4_000), np.nan)
    np.put_along_axis(alone, ids, scores, axis=1)
    for parts in (2, 3):
        searcher = searcher_from_index(make_index(parallel_searches=parts))
        for rows in (1, 2, 45):
            found = search(searcher, queries[:rows], 30, 5)
            assert found[0].shape[0] == rows
            np.testing.assert_allclose(found[1], scores[:rows, : found[1].shape[1]], rtol=0, atol=tolerance)
            for row, expected in zip(found[0], alone, strict=False):
                assert_same_ranking(expected, row, 2 * tolerance)


def test_short_rows_are_padded_without_nan(make_index, queries):
    index = make_index()
    searcher = searcher_from_index(index)
    ids, scores, valid, cutoffs = search(searcher, queries, 1000, 1)
    lengths = valid.sum(axis=1)
    cells = index.array("cells")
    nearest = np.argmax(queries @ index.array("centres").T, axis=1)
    for row, ok, cell in zip(ids, valid, nearest, strict=True):
        np.testing.assert_array_equal(np.sort(row[ok]), np.flatnonzero(cells == cell))
    assert 1 <= lengths.min() < lengths.max() == valid.shape[1] <= np.bincount(cells).max()
    assert (ids[~valid] == 0).all()
    assert np.isneginf(scores[~valid]).all()
    assert np.isfinite(scores[valid]).all()
    np.testing.assert_array_equal(cutoffs, [row[ok].min() for row, ok in zip(scores, valid, strict=True)])


def test_k_prime_larger_than_the_index_returns_all_of_it(make_index, vectors, queries):
    ids, *_ = search(searcher_from_index(make_index()), queries[:3], 10**9, 10**6)
    assert np.array_equal(np.sort(ids, axis=1), np.tile(np.arange(len(vectors)), (3, 1)))


def test_more_leaves_find_more_and_the_rule_grows_with_k_prime(make_index, queries):
    searcher = searcher_from_index(make_index())
    found = [search(searcher, queries, 400, leaves)[2].sum() for leaves in (1, 4, 0)]
    assert found[0] < found[1] < found[2] == 400 * len(queries)


def test_a_default_number_of_leaves_can_be_configured(make_index, queries):
    by_default = search(searcher_from_index(make_index(num_leaves_to_search=2)), queries, 100, 0)
    by_request = search(searcher_from_index(make_index()), queries, 100, 2)
    np.testing.assert_array_equal(by_default[0], by_request[0])


def test_one_trace_serves_every_k_prime_and_leaves(make_index, queries):
    searcher = searcher_from_index(make_index())
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32)])
    def run(k_prime, leaves):
        traces.append(1)
        return searcher.search(queries, k_prime, leaves).token_ids

    assert run(5, 50).shape[1] == 5
    assert run(9, 100).shape[1] == 9
    assert len(traces) == 1


def test_an_empty_index_is_refused():
    with pytest.raises(InputError, match="at least one token"):
        ScannSearcher(
            np.zeros((1, 4), np.float32), np.zeros((2, 16, 2), np.float32), np.zeros(0, np.int32),
            np.zeros((0, 1), np.uint8),
        )  # fmt: skip
