"""f_XTR against a slow, obvious NumPy reference, and cases that are easy to get wrong."""

from __future__ import annotations

import functools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.scoring.reference import maxima_of_hits, xtr_scores
from xtr_tf.training.losses.scores import maxsim_scores, token_retrieval_scores


def reference(queries, query_mask, documents, document_mask, k_train, candidates):
    """f_XTR and Z token by token, as the paper defines them."""
    scores = np.zeros(candidates.shape)
    counts = np.zeros(candidates.shape)
    for q in range(len(queries)):
        for i in np.flatnonzero(query_mask[q]):
            tokens = [
                (d, float(queries[q, i] @ documents[d, j]))
                for d in np.flatnonzero(candidates[q])
                for j in np.flatnonzero(document_mask[d])
            ]
            ranked = sorted((value for _, value in tokens), reverse=True)
            threshold = ranked[k_train - 1] if len(ranked) >= k_train else -np.inf
            for d in range(len(documents)):
                retrieved = [value for document, value in tokens if document == d and value >= threshold]
                if retrieved:
                    scores[q, d] += max(retrieved)
                    counts[q, d] += 1
    return np.where(counts > 0, scores / np.maximum(counts, 1), 0.0), counts


@functools.cache
def traced(k_train: int, block: int | None, static_shapes: bool):
    vectors, mask = tf.TensorSpec([None, None, 3]), tf.TensorSpec([None, None], tf.bool)

    @tf.function(input_signature=[vectors, mask, vectors, mask, mask])
    def score(queries, query_mask, documents, document_mask, candidates):
        return token_retrieval_scores(
            queries,
            query_mask,
            documents,
            document_mask,
            k_train,
            candidates,
            block=block,
            static_shapes=static_shapes,
        )

    return score


def random_case(seed: int):
    """Small integers as vectors, so that sums are exact and ties, zeros and negative maxima abound."""
    rng = np.random.default_rng(seed)
    query_count, n, document_count, m = rng.integers(1, [4, 5, 6, 5])
    queries = rng.integers(-2, 3, [query_count, n, 3]).astype(np.float32)
    documents = rng.integers(-2, 3, [document_count, m, 3]).astype(np.float32)
    query_mask = rng.random([query_count, n]) < 0.8
    document_mask = rng.random([document_count, m]) < rng.choice([0.3, 0.9])
    candidates = rng.random([query_count, document_count]) < 0.8
    return queries, query_mask, documents, document_mask, candidates


# Every k_train, and every pair of block and shapes; all combinations are 36 graphs, which take long to trace.
VARIANTS = (
    *((1, None, True), (2, None, False), (3, 1, True), (5, 1, False), (9, 2, True), (40, 2, False)),
    *((2, 1, True), (3, 2, False), (5, None, True)),
)


@hypothesis.given(st.integers(0, 2**32), st.sampled_from(VARIANTS))
def test_equals_the_reference(seed, variant):
    k_train, block, static_shapes = variant
    queries, query_mask, documents, document_mask, candidates = random_case(seed)
    result = traced(k_train, block, static_shapes)(queries, query_mask, documents, document_mask, candidates)
    scores, counts = reference(queries, query_mask, documents, document_mask, k_train, candidates)
    np.testing.assert_allclose(result.scores, scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(result.retrieving_tokens, counts)


@pytest.mark.parametrize("k_train", [1, 4, 15])
def test_with_imputation_it_is_the_score_that_search_ranks_by(k_train):
    """Against the exact search of an index that holds the batch's tokens, for the documents it finds."""
    rng = np.random.default_rng(k_train)
    queries, documents = unit_vectors(rng, 3, 4, 8), unit_vectors(rng, 5, 6, 8)
    query_mask = np.arange(4)[None] < np.array([[4], [1], [3]])
    document_mask = np.arange(6)[None] < np.array([[6], [2], [5], [6], [1]])
    result = token_retrieval_scores(queries, query_mask, documents, document_mask, k_train, imputed=True)
    tokens, owners = documents[document_mask], np.nonzero(document_mask)[0]
    similarities = queries[query_mask] @ tokens.T
    best = np.argsort(-similarities, axis=1)[:, :k_train]
    hits = np.take_along_axis(similarities, best, axis=1)
    maxima = maxima_of_hits(hits, owners[best], len(documents))
    starts = np.concatenate([[0], np.cumsum(query_mask.sum(axis=1))[:-1]])
    expected = xtr_scores(maxima, np.isfinite(maxima), hits[:, -1], starts)
    candidates = np.isfinite(expected)
    assert candidates.sum() >= 3
    np.testing.assert_allclose(
        result.scores.numpy()[candidates], expected[candidates], rtol=0, atol=rounding(4 * 8)
    )


def test_no_gradient_flows_through_an_imputed_threshold():
    """Each query token retrieves one token, and moves only the score of that token's document."""
    queries, documents = queries_and_documents(np.array([[[0.9], [0.3]], [[0.1], [0.8]]]))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(documents)
        masks = tf.ones([1, 2], tf.bool), tf.ones([2, 1], tf.bool)
        scores = token_retrieval_scores(queries, masks[0], documents, masks[1], 1, imputed=True).scores[0]
        first, second = scores[0], scores[1]
    np.testing.assert_allclose(scores, [(0.9 + 0.8) / 2, (0.9 + 0.8) / 2], rtol=0, atol=rounding(2))
    np.testing.assert_allclose(tape.gradient(first, documents), [[[0.5, 0]], [[0, 0]]])
    np.testing.assert_allclose(tape.gradient(second, documents), [[[0, 0]], [[0, 0.5]]])


@pytest.mark.parametrize("static_shapes", [True, False])
def test_imputation_with_everything_retrieved_is_sum_of_max(static_shapes):
    rng = np.random.default_rng(3)
    queries, documents = unit_vectors(rng, 2, 3, 4), unit_vectors(rng, 3, 4, 4)
    masks = np.array([[1, 1, 1], [1, 0, 0]], bool), np.array([[1] * 4, [1, 1, 0, 0], [0] * 4], bool)
    arguments = (queries, masks[0], documents, masks[1])
    imputed = token_retrieval_scores(*arguments, 100, imputed=True, static_shapes=static_shapes).scores
    np.testing.assert_allclose(imputed, maxsim_scores(*arguments), rtol=0, atol=rounding(3 * 4))


def unit_vectors(rng: np.random.Generator, *shape: int) -> np.ndarray:
    vectors = rng.normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def queries_and_documents(similarities: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    """One query and documents whose similarities are `similarities` `[D, n, m]`.

    The query's tokens are the axes of the space, so that the gradient of a document token's
    coordinate i is the gradient of its similarity with query token i.
    """
    n = similarities.shape[1]
    queries = np.eye(n, dtype=np.float32)[None]
    return tf.constant(queries), tf.constant(similarities.transpose(0, 2, 1).astype(np.float32))


def score(similarities: np.ndarray, k_train: int):
    queries, documents = queries_and_documents(similarities)
    masks = tf.ones(queries.shape[:2], tf.bool), tf.ones(documents.shape[:2], tf.bool)
    return token_retrieval_scores(queries, masks[0], documents, masks[1], k_train)


def test_a_retrieved_negative_similarity_keeps_its_value_and_counts():
    similarities = np.array([[[-0.5, -0.6], [-0.2, -0.7]], [[-0.9, -0.8], [0.4, 0.3]]])
    result = score(similarities, k_train=1)
    # Token 0's best is -0.5 in document 0, token 1's is 0.4 in document 1.
    np.testing.assert_allclose(result.scores, [[-0.5, 0.4]])
    np.testing.assert_array_equal(result.retrieving_tokens, [[1, 1]])


def test_a_retrieved_zero_similarity_counts():
    result = score(np.array([[[0.0], [0.8]], [[-0.3], [0.1]]]), k_train=1)
    np.testing.assert_allclose(result.scores, [[0.4, 0.0]])
    np.testing.assert_array_equal(result.retrieving_tokens, [[2, 0]])


def test_the_threshold_is_that_of_the_query_token_and_not_of_the_query():
    # Token 0 is close to everything; one threshold for the query would leave token 1 without any.
    result = score(np.array([[[0.9, 0.8], [0.1, 0.0]], [[0.7, 0.6], [0.2, 0.0]]]), k_train=1)
    np.testing.assert_allclose(result.scores, [[0.9, 0.2]])
    np.testing.assert_allclose(result.threshold, [[0.9, 0.2]])


@pytest.mark.parametrize("k_train", [9, 12, 1000])
def test_with_everything_retrieved_it_is_sum_of_max(k_train):
    rng = np.random.default_rng(0)
    queries, documents = unit_vectors(rng, 2, 4, 8), unit_vectors(rng, 3, 5, 8)
    query_mask = tf.constant([[True] * 4, [True, True, False, False]])
    document_mask = tf.sequence_mask([5, 3, 1], 5)
    result = token_retrieval_scores(queries, query_mask, documents, document_mask, k_train)
    expected = maxsim_scores(queries, query_mask, documents, document_mask)
    np.testing.assert_allclose(result.scores, expected, rtol=0, atol=rounding(8 + 4))


def test_tokens_that_tie_with_the_threshold_are_all_retrieved_in_any_order():
    similarities = np.array([[[0.5, 0.5]], [[0.9, 0.1]], [[0.5, 0.2]]])
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        result = score(similarities[order], k_train=2)
        np.testing.assert_array_equal(result.retrieving_tokens, [[1, 1, 1]])
        np.testing.assert_allclose(result.scores, np.array([[0.5, 0.9, 0.5]])[:, order])


def test_nothing_retrieved_scores_zero_without_a_gradient():
    queries, documents = queries_and_documents(np.array([[[0.9, 0.8]], [[0.1, 0.2]]]))
    with tf.GradientTape() as tape:
        tape.watch(documents)
        result = token_retrieval_scores(queries, tf.ones([1, 1], bool), documents, tf.ones([2, 2], bool), 1)
        loser = result.scores[0, 1]
    assert loser == 0
    np.testing.assert_array_equal(tape.gradient(loser, documents), np.zeros([2, 2, 1]))


def test_padding_never_counts_never_retrieves_never_blocks():
    """A garbage token under the mask changes nothing, wherever it is."""
    rng = np.random.default_rng(1)
    queries, documents = unit_vectors(rng, 2, 3, 8), unit_vectors(rng, 3, 4, 8)
    plain = token_retrieval_scores(queries, tf.ones([2, 3], bool), documents, tf.ones([3, 4], bool), 3)
    # The padding tokens are copies of query tokens: unmasked, they would win every retrieval.
    padded_queries = np.concatenate([queries, queries[:, :1] * 5], axis=1)
    padded_documents = np.concatenate([documents, np.broadcast_to(queries[0, :2] * 9, [3, 2, 8])], axis=1)
    padded = token_retrieval_scores(
        padded_queries, tf.sequence_mask([3, 3], 4), padded_documents, tf.sequence_mask([4, 4, 4], 6), 3
    )
    np.testing.assert_allclose(padded.scores, plain.scores, rtol=0, atol=rounding(8 + 3))
    np.testing.assert_array_equal(padded.retrieving_tokens, plain.retrieving_tokens)


def test_documents_that_are_not_candidates_do_not_displace_others():
    similarities = np.array([[[0.5]], [[0.9]], [[0.4]]])
    queries, documents = queries_and_documents(similarities)
    masks = tf.ones([1, 1], tf.bool), tf.ones([3, 1], tf.bool)
    candidates = tf.constant([[True, False, True]])
    result = token_retrieval_scores(queries, masks[0], documents, masks[1], 1, candidates)
    np.testing.assert_allclose(result.scores, [[0.5, 0.0, 0.0]])


def test_neither_blocks_nor_packing_change_value_or_gradient():
    rng = np.random.default_rng(2)
    queries, documents = tf.constant(unit_vectors(rng, 3, 4, 8)), tf.constant(unit_vectors(rng, 7, 5, 8))
    query_mask = tf.sequence_mask([4, 2, 3], 4)
    document_mask = tf.sequence_mask([5, 4, 1, 2, 3, 5, 5], 5)
    weights = tf.constant(rng.normal(size=[3, 7]).astype(np.float32))

    def value_and_gradients(block, static_shapes=True):
        with tf.GradientTape() as tape:
            tape.watch([queries, documents])
            scores = token_retrieval_scores(
                queries, query_mask, documents, document_mask, 6, block=block, static_shapes=static_shapes
            )
            value = tf.reduce_sum(weights * scores.scores)
        return [value, *tape.gradient(value, [queries, documents])]

    whole = value_and_gradients(7)
    for block, static_shapes in ((1, True), (2, True), (3, True), (None, True), (2, False), (None, False)):
        for ours, theirs in zip(value_and_gradients(block, static_shapes), whole, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("recall", [1.0, 0.95])
def test_xla_compiles_it_and_agrees(recall):
    """Also with the approximate top-k of a TPU, which XLA makes exact on other devices."""
    rng = np.random.default_rng(3)
    queries, documents = tf.constant(unit_vectors(rng, 4, 8, 16)), tf.constant(unit_vectors(rng, 6, 32, 16))
    masks = tf.ones([4, 8], tf.bool), tf.sequence_mask([32, 20, 5, 32, 1, 8], 32)

    def value_and_gradient(queries, documents, recall):
        with tf.GradientTape() as tape:
            tape.watch(documents)
            result = token_retrieval_scores(
                queries, masks[0], documents, masks[1], k_train=8, recall=recall, block=2
            )
            value = tf.reduce_sum(result.scores)
        return result.scores, tape.gradient(value, documents)

    compiled = tf.function(value_and_gradient, jit_compile=True)(queries, documents, recall)
    for ours, theirs in zip(compiled, value_and_gradient(queries, documents, 1.0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
