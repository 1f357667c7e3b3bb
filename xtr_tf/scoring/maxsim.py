"""f_ColBERT: exact MaxSim in stock TensorFlow ops. Every token is compared and nothing is imputed.

    f_ColBERT(Q, D) = 1/n * sum_i max_j P_ij

It is computed for texts of a caller (`maxsim_scores`), and for candidates whose vectors are in the index
(`rescore_documents`). Knows nothing about text or about how vectors are stored. `reference.py` is its NumPy
twin. Training compares whole batches with its own op (`training/losses/maxsim.py`).

Citation: [Khattab and Zaharia, 2020](https://arxiv.org/abs/2004.12832).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from xtr_tf.scoring.ranking import ONE_RANKING, RankedDocuments, rank_candidates

# Documents encoded at a time. Attention over 512 tokens takes 12 MiB per document in a base encoder.
_DOCUMENTS_AT_ONCE = 16
_QUERIES_AT_ONCE = 4


def maxsim_scores(
    queries: tf.Tensor, query_mask: tf.Tensor, documents: tf.Tensor, document_mask: tf.Tensor
) -> tf.Tensor:
    """Returns f_ColBERT of pairs of a query and a document.

    Args:
        queries: `[pairs, query_length, dim]` float32.
        query_mask: `[pairs, query_length]` bool.
        documents: `[pairs, document_length, dim]` float32.
        document_mask: `[pairs, document_length]` bool.

    Returns:
        `[pairs]` float32; `-inf` for a document without tokens, 0 for a query without tokens.
    """
    similarities = tf.matmul(queries, documents, transpose_b=True)
    similarities = tf.where(document_mask[:, tf.newaxis, :], similarities, -float("inf"))
    best = tf.where(query_mask, tf.reduce_max(similarities, axis=2), 0.0)
    tokens = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1)
    return tf.math.divide_no_nan(tf.reduce_sum(best, axis=1), tokens)


def score_in_chunks(count: tf.Tensor, score: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Scores many documents in small chunks, so that memory does not grow with their number.

    Args:
        count: Scalar int32, number of documents.
        score: Function from `[chunk]` int32 positions to `[chunk]` float32 scores.

    Returns:
        `[count]` float32.
    """
    chunks = (count + _DOCUMENTS_AT_ONCE - 1) // _DOCUMENTS_AT_ONCE
    scores = tf.TensorArray(tf.float32, size=chunks, infer_shape=False, element_shape=[None])

    def step(index: tf.Tensor, scores: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        start = index * _DOCUMENTS_AT_ONCE
        positions = tf.range(start, tf.minimum(start + _DOCUMENTS_AT_ONCE, count))
        return index + 1, scores.write(index, score(positions))

    _, scores = tf.while_loop(
        lambda index, _: index < chunks, step, (tf.constant(0), scores), parallel_iterations=1
    )
    return scores.concat()


def rescore_documents(
    ranked: RankedDocuments,
    encodings: tf.Tensor,
    query_mask: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
    document_offsets: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> RankedDocuments:
    """Ranks candidates again by exact f_ColBERT, with the token vectors of the index.

    Args:
        ranked: Candidates, `[queries, candidates]`.
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) for tokens, false (or 0) for padding.
        vectors_of: Function from `[any]` token ordinals to their vectors, `[any, dim]` float32.
        document_offsets: `[documents + 1]` integers; tokens of document `i` are `[i]` to `[i + 1]`.
        weights: `[queries, length]` float32, the weight of each query token; equal weights if None.

    Returns:
        The same documents in their new order, `[queries, candidates]`.
    """
    query_mask = tf.cast(query_mask, tf.bool)
    weights = tf.ones(tf.shape(query_mask)) if weights is None else weights

    def rescore_query(query: tuple[tf.Tensor, ...]) -> RankedDocuments:
        ordinals, encoding, mask, weights = query
        vectors, counted = tf.boolean_mask(encoding, mask), tf.boolean_mask(weights, mask)
        scores = score_kept_documents(ordinals, vectors, counted, vectors_of, document_offsets)
        return rank_candidates(ordinals, scores, tf.size(ordinals))

    return tf.map_fn(
        rescore_query,
        (ranked.ordinals, encodings, query_mask, weights),
        fn_output_signature=ONE_RANKING,
        parallel_iterations=None if tf.executing_eagerly() else _QUERIES_AT_ONCE,
    )


def score_kept_documents(
    ordinals: tf.Tensor,
    vectors: tf.Tensor,
    weights: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
    document_offsets: tf.Tensor,
) -> tf.Tensor:
    """Returns f_ColBERT of one query for some documents.

    Args:
        ordinals: `[documents]` int32, -1 for no document.
        vectors: `[rows, dim]` float32, the tokens of the query.
        weights: `[rows]` float32, the weight of each query token.
        vectors_of: As for `rescore_documents`.
        document_offsets: As for `rescore_documents`.

    Returns:
        `[documents]` float32, `-inf` where there is no document and for documents without tokens.
    """
    present = tf.maximum(ordinals, 0)
    starts, ends = tf.gather(document_offsets, present), tf.gather(document_offsets, present + 1)
    tokens = tf.ragged.range(starts, tf.where(ordinals >= 0, ends, starts))
    similarities = tf.matmul(vectors_of(tokens.flat_values), vectors, transpose_b=True)
    best = tf.math.unsorted_segment_max(similarities, tokens.value_rowids(), tf.size(ordinals))
    scores = tf.math.divide_no_nan(tf.linalg.matvec(best, weights), tf.reduce_sum(weights))
    return tf.where(tokens.row_lengths() > 0, scores, -float("inf"))
