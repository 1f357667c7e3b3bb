"""The objectives: cross entropy over a batch's documents, and distance to a teacher's scores or vectors.

Also finds the documents to leave out as false negatives. Knows nothing about how documents were scored.
"""

from __future__ import annotations

import tensorflow as tf


def in_batch_cross_entropy(
    scores: tf.Tensor, labels: tf.Tensor, candidates: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Computes the negative log probability of each query's positive document among its candidates.

    Args:
        scores: `[Q, D]`.
        labels: `[Q]`, the column of each query's positive, which must be a candidate.
        candidates: `[Q, D]`, false for documents to leave out of the softmax: padding, and other documents
            that are known to answer the query.
        temperature: Divisor of the scores.

    Returns:
        `[Q]`. The caller averages over the global batch.
    """
    logits = tf.where(candidates, scores / temperature, scores.dtype.min)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def distillation_divergence(
    scores: tf.Tensor, teacher_scores: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Computes the Kullback-Leibler divergence of the student's distribution from the teacher's.

    Args:
        scores: `[Q, C]`, scores of each query's own positive and hard negatives.
        teacher_scores: `[Q, C]`, NaN where there is no teacher score.
        temperature: Divisor of the student's scores.

    Returns:
        `[Q]`, 0 for a query with fewer than two teacher scores.
    """
    given = tf.math.is_finite(teacher_scores)
    lowest = scores.dtype.min
    teacher = tf.nn.log_softmax(tf.where(given, teacher_scores, lowest))
    student = tf.nn.log_softmax(tf.where(given, scores / temperature, lowest))
    terms = tf.where(given, tf.exp(teacher) * (teacher - student), 0.0)
    return tf.reduce_sum(terms, axis=-1)


def vector_distances(vectors: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Computes the mean of `1 - cosine` between the vectors of tokens and those of a teacher.

    Args:
        vectors: `[T, m, dim]` of unit length.
        targets: `[T, m, dim]` of unit length, zero for tokens that do not count.

    Returns:
        A scalar, 0 if no token counts.
    """
    counted = tf.cast(tf.reduce_any(targets != 0, axis=-1), tf.float32)
    cosines = tf.reduce_sum(vectors * targets, axis=-1)
    return tf.math.divide_no_nan(tf.reduce_sum((1 - cosines) * counted), tf.reduce_sum(counted))


def false_negatives(positive_keys: tf.Tensor, document_keys: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Marks documents that share a fingerprint with one of a query's positives.

    Args:
        positive_keys: `[Q, P, F, 2]` int32, `F` fingerprints of each of a query's `P` known
            positives, for instance one of the id and one of the text.
        document_keys: `[D, F, 2]` int32, the same fingerprints of the batch's documents.
        labels: `[Q]`, the column of each query's own positive, which is never marked.

    Returns:
        `[Q, D]` boolean.
    """
    known = tf.reduce_any(document_keys != 0, axis=-1)
    equal = tf.reduce_all(positive_keys[:, :, None] == document_keys[None, None], axis=-1)
    matching = tf.reduce_any(equal & known, axis=[1, 3])
    columns = tf.range(tf.shape(document_keys)[0])
    return matching & (columns[None, :] != labels[:, None])
