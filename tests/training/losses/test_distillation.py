"""The distillation term against NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from xtr_tf.training.losses.objectives import distillation_divergence


def softmax(values):
    return np.exp(values) / np.exp(values).sum()


def test_is_the_divergence_over_the_documents_that_the_teacher_scored():
    scores = tf.constant([[0.3, 0.1, 0.9], [0.2, 0.4, 0.6]])
    teacher = tf.constant([[3.0, 1.0, np.nan], [2.0, 1.0, 0.0]])
    expected = []
    for row, columns in ((0, [0, 1]), (1, [0, 1, 2])):
        p = softmax(teacher.numpy()[row, columns])
        q = softmax(scores.numpy()[row, columns] / 0.1)
        expected.append((p * np.log(p / q)).sum())
    np.testing.assert_allclose(distillation_divergence(scores, teacher, 0.1), expected, rtol=1e-5)


def test_is_zero_with_a_zero_gradient_where_the_teacher_is_silent_or_matched():
    scores = tf.constant([[0.3, 0.1], [0.5, 0.2], [1.0, 2.0]])
    teacher = tf.constant([[np.nan, np.nan], [1.0, np.nan], [1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        divergence = distillation_divergence(scores, teacher)
    np.testing.assert_allclose(divergence, [0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(tape.gradient(divergence, scores), np.zeros([3, 2]), atol=1e-7)
