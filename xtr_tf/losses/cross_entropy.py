"""Cross entropy of scores over the documents of a batch; knows nothing of how they were scored."""

from __future__ import annotations

import tensorflow as tf


def in_batch_cross_entropy(
    scores: tf.Tensor, labels: tf.Tensor, candidates: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """The negative log probability of each query's positive document among its candidates.

    Args:
        scores: `[Q, D]`.
        labels: `[Q]`, the column of each query's positive, which must be a candidate.
        candidates: `[Q, D]`, false at documents left out of the softmax: padding, and other
            documents that are known to answer the query.
        temperature: Divides the scores.

    Returns:
        `[Q]`; the caller averages over the global batch.
    """
    logits = tf.where(candidates, scores / temperature, scores.dtype.min)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
