"""Divergence of a query's scores from a teacher's, over the documents that the teacher scored."""

from __future__ import annotations

import tensorflow as tf


def distillation_divergence(
    scores: tf.Tensor, teacher_scores: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Kullback-Leibler divergence of the student's distribution from the teacher's.

    Args:
        scores: `[Q, C]`, of each query's own positive and hard negatives.
        teacher_scores: `[Q, C]`, NaN where the teacher gave none.
        temperature: Divides the student's scores.

    Returns:
        `[Q]`, 0 for a query with fewer than two teacher scores.
    """
    given = tf.math.is_finite(teacher_scores)
    lowest = scores.dtype.min
    teacher = tf.nn.log_softmax(tf.where(given, teacher_scores, lowest))
    student = tf.nn.log_softmax(tf.where(given, scores / temperature, lowest))
    terms = tf.where(given, tf.exp(teacher) * (teacher - student), 0.0)
    return tf.reduce_sum(terms, axis=-1)
