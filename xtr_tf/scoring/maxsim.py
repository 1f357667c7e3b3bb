"""Exact f_ColBERT of texts that a caller brings: every token compared, nothing imputed.

    f_ColBERT(Q, D) = 1/n * sum_i max_j P_ij

Citation: [Khattab and Zaharia, 2020](https://arxiv.org/abs/2004.12832).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

# Documents encoded at a time: attention over 512 tokens takes 12 MiB a document in a base encoder.
_DOCUMENTS_AT_ONCE = 16


def sum_of_max(
    queries: tf.Tensor, query_mask: tf.Tensor, documents: tf.Tensor, document_mask: tf.Tensor
) -> tf.Tensor:
    """f_ColBERT of pairs.

    Args:
        queries: `[pairs, query_length, dim]` float32.
        query_mask: `[pairs, query_length]` bool.
        documents: `[pairs, document_length, dim]` float32.
        document_mask: `[pairs, document_length]` bool.

    Returns:
        `[pairs]` float32; `-inf` for a document without tokens, 0 for a query without.
    """
    similarities = tf.matmul(queries, documents, transpose_b=True)
    similarities = tf.where(document_mask[:, tf.newaxis, :], similarities, -float("inf"))
    best = tf.where(query_mask, tf.reduce_max(similarities, axis=2), 0.0)
    tokens = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1)
    return tf.math.divide_no_nan(tf.reduce_sum(best, axis=1), tokens)


def score_in_chunks(count: tf.Tensor, score: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Scores many documents a few at a time, so that memory does not grow with their number.

    Args:
        count: Scalar int32, how many there are.
        score: From `[chunk]` int32 positions to `[chunk]` float32 scores.

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
