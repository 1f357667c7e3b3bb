"""The searcher of stock ops, against NumPy over the vectors it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.quantizer import train_quantizer
from xtr_tf.index.searchers import core as core_searcher
from xtr_tf.index.searchers import direct
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.index.searchers.sharded import ShardedSearcher
from xtr_tf.index.vector_source import ArrayVectors
from xtr_tf.scoring.xtr import score_documents

# 32 products and a scale; what is kept of a unit vector in 8 bits may be a little longer.
TOLERANCE = rounding(32 + 1, 1.1)


def search(searcher, queries, k_prime, leaves=0):
    hits = tf.function(searcher.search)(queries, tf.constant(k_prime), tf.constant(leaves))
    return [part.numpy() for part in hits]


@pytest.fixture
def kept_vectors(make_index, vectors):
    """What an int8 index holds, in the order of the corpus."""
    multipliers = make_index(kind="core").array("multipliers")
    return np.clip(np.rint(vectors * multipliers), -127, 127) / multipliers


@pytest.mark.parametrize("block", [16_384, 100])
@pytest.mark.parametrize("k_prime", [1, 30, 200])
def test_all_leaves_give_the_exact_top_k(monkeypatch, make_index, kept_vectors, queries, k_prime, block):
    monkeypatch.setattr(direct, "_BLOCK", block)
    ids, scores, valid, cutoffs = search(
        searcher_from_index(make_index(kind="core")), queries, k_prime, 10**6
    )
    similarities = queries @ kept_vectors.T
    expected = np.sort(similarities, axis=1)[:, ::-1][:, :k_prime]
    assert valid.all()
    assert valid.shape == expected.shape
    np.testing.assert_allclose(np.sort(scores, axis=1)[:, ::-1], expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(np.take_along_axis(similarities, ids, axis=1), scores, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(cutoffs, expected[:, -1], rtol=0, atol=TOLERANCE)


def test_a_large_k_prime_is_met_within_sampling(make_index, queries):
    *_, valid, _ = search(searcher_from_index(make_index(kind="core")), queries, 2000, 10**6)
    lengths = valid.sum(axis=1)
    np.testing.assert_allclose(lengths, 2000, rtol=0.15)
    assert abs(lengths.mean() / 2000 - 1) < 0.03


@pytest.mark.parametrize("k_prime", [4_000, 10**9])
def test_retrieving_everything_is_exact(make_index, kept_vectors, queries, k_prime):
    ids, _, valid, cutoffs = search(searcher_from_index(make_index(kind="core")), queries, k_prime, 10**6)
    assert valid.all()
    assert np.array_equal(np.sort(ids, axis=1), np.tile(np.arange(len(kept_vectors)), (len(queries), 1)))
    np.testing.assert_allclose(cutoffs, (queries @ kept_vectors.T).min(axis=1), rtol=0, atol=TOLERANCE)


def test_a_row_sees_every_token_of_its_leaves(make_index, kept_vectors, queries):
    index = make_index(kind="core")
    offsets, tokens = index.array("cell_offsets"), index.array("tokens")
    nearest = np.argmax(queries[:1] @ index.array("centres").T)
    expected = tokens[offsets[nearest] : offsets[nearest + 1]]
    ids, *_ = search(searcher_from_index(index), queries[:1], 10**6, 1)
    np.testing.assert_array_equal(np.sort(ids[0]), np.sort(expected))


def test_a_query_finds_the_same_whatever_its_neighbours(make_index, kept_vectors, queries):
    searcher = searcher_from_index(make_index(kind="core"))
    lengths = [3, 0, 5, 1, len(queries) - 9]
    together = searcher.search(queries, tf.constant(100), tf.constant(2), tf.constant(lengths))
    end = 0
    for length in filter(None, lengths):
        rows = slice(end, end := end + length)
        alone = searcher.search(queries[rows], tf.constant(100), tf.constant(2))
        for row, ids in enumerate(together.token_ids[rows].numpy()):
            found = ids[together.valid[rows][row]]
            expected = alone.token_ids[row][alone.valid[row]].numpy()
            assert len(found) == len(expected)
            for token in set(found) ^ set(expected):
                to_cutoff = queries[rows][row] @ kept_vectors[token] - alone.cutoffs[row]
                assert abs(to_cutoff) <= 2 * TOLERANCE, "more than a tie at the cutoff"


def test_vectors_are_given_in_the_order_of_the_corpus(make_index, kept_vectors):
    tokens = np.array([7, 0, 1234, 7], np.int32)
    found = searcher_from_index(make_index(kind="core")).vectors_of(tf.constant(tokens))
    np.testing.assert_allclose(found, kept_vectors[tokens], atol=1e-6)


def test_bfloat16_is_an_option(make_index, vectors, queries):
    index = make_index(kind="core", dtype="bfloat16")
    _, scores, *_ = search(searcher_from_index(index), queries, 100, 10**6)
    expected = np.sort(queries @ vectors.T, axis=1)[:, ::-1][:, :100]
    np.testing.assert_allclose(np.sort(scores, axis=1)[:, ::-1], expected, atol=0.01)


@pytest.fixture
def int4_index(make_index):
    return make_index(kind="core", dtype="int4")


@pytest.fixture
def centres_of_tokens(int4_index):
    """The centre of every token's leaf, in the order of the corpus."""
    centres = int4_index.array("centres")
    leaves = np.repeat(np.arange(len(centres)), np.diff(int4_index.array("cell_offsets")))
    return centres[leaves[np.argsort(int4_index.array("tokens"))]]


@pytest.fixture
def int4_vectors(int4_index, centres_of_tokens, vectors):
    """What an int4 index holds: centres and distances from them in 16 steps, in the order of the corpus."""
    multipliers = int4_index.array("int4_multipliers")
    steps = np.clip(np.rint((vectors - centres_of_tokens) * multipliers + 7.5), 0, 15) - 7.5
    return centres_of_tokens + steps / multipliers


def test_int4_vectors_are_distances_from_centres(int4_index, int4_vectors, vectors, queries):
    assert int4_index.array("vectors").shape == (len(vectors), vectors.shape[1] // 2)
    searcher = searcher_from_index(int4_index)
    tokens = np.array([7, 0, 1234, 7], np.int32)
    np.testing.assert_allclose(searcher.vectors_of(tf.constant(tokens)), int4_vectors[tokens], atol=1e-6)
    ids, scores, valid, _ = search(searcher, queries, 200, 10**6)
    similarities = queries @ int4_vectors.T
    expected = np.sort(similarities, axis=1)[:, ::-1][:, :200]
    assert valid.all()
    # Values of up to 15 steps are added, and a multiple of 7.5 steps is subtracted from their sum.
    largest = 24 * np.abs(queries / int4_index.array("int4_multipliers")).sum(axis=1).max()
    tolerance = rounding(32 + 3, 1.1 + largest)
    np.testing.assert_allclose(np.sort(scores, axis=1)[:, ::-1], expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.take_along_axis(similarities, ids, axis=1), scores, rtol=0, atol=tolerance)


def test_int4_keeps_most_of_the_distance_from_centres(int4_vectors, centres_of_tokens, vectors):
    off, off_of_centres = (np.square(vectors - kept).sum() for kept in (int4_vectors, centres_of_tokens))
    # 16 steps leave 1.2% of the variance of a normal distribution.
    assert off < 0.03 * off_of_centres


def test_int4_needs_an_even_width(vectors):
    source = ArrayVectors(np.ascontiguousarray(vectors[:, :31]), np.zeros(len(vectors), np.int32))
    with pytest.raises(InputError, match=r"even width. Received: width 31\."):
        train_quantizer(source, IndexConfig(kind="core", dtype="int4", dims_per_block=1))


def test_the_rule_finds_nearly_everything(make_index, vectors, queries):
    ids, _, valid, _ = search(searcher_from_index(make_index(kind="core")), queries, 100)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :100]
    found = [len(set(a[ok]) & set(b)) / 100 for a, b, ok in zip(ids, exact, valid, strict=True)]
    assert np.mean(found) > 0.85


def test_no_query_tokens_give_no_rows(make_index, queries):
    ids, *_, cutoffs = search(searcher_from_index(make_index(kind="core")), queries[:0], 10)
    assert ids.shape[0] == cutoffs.shape[0] == 0


@pytest.fixture
def half_empty():
    """A searcher with two leaves, the second of which is empty."""
    return core_searcher.CoreSearcher(
        centres=np.eye(2, dtype=np.float32),
        leaf_offsets=np.array([0, 3, 3]),
        postings=np.arange(3, dtype=np.int32),
        vectors=np.array([[127, 0], [100, 10], [90, 20]], np.int8),
        multipliers=np.full(2, 127, np.float32),
    )


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("k_prime", [1, 1_000])
def test_empty_leaves_give_no_hits(half_empty, k_prime, shards):
    searcher = half_empty if shards == 1 else ShardedSearcher([half_empty] * shards)
    *_, valid, cutoffs = search(searcher, np.array([[0.0, 1.0]], np.float32), k_prime, 1)
    assert not valid.any()
    assert cutoffs.tolist() == [0.0]


def test_an_empty_leaf_does_not_affect_other_queries_of_a_batch(half_empty):
    queries = np.array([[0, 1], [1, 0]], np.float32)
    hits = half_empty.search(queries, tf.constant(2), tf.constant(1), tf.constant([1, 1]))
    assert hits.valid.numpy().sum(axis=1).tolist() == [0, 2]
    assert hits.token_ids[1].numpy().tolist() == [0, 1]


def test_a_ranking_of_no_hits_is_empty(half_empty):
    hits = half_empty.search(np.array([[0, 1]], np.float32), tf.constant(2), tf.constant(1))
    ranked = score_documents(hits, tf.ones([1, 1]), tf.zeros_like, 1, tf.constant(2))
    assert not np.isfinite(ranked.scores).any()
