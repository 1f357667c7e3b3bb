"""The loss: its gradients in closed form, the failure case that XTR fixes, and the softmax itself."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.training.losses.objectives import in_batch_cross_entropy
from xtr_tf.training.losses.scores import maxsim_scores, token_retrieval_scores


def axis_queries(similarities: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    """One query whose tokens are the axes; documents `[D, m, n]` hold the similarities themselves."""
    return tf.eye(similarities.shape[1])[None], tf.constant(similarities.transpose(0, 2, 1), tf.float32)


def loss_of(scores: tf.Tensor) -> tf.Tensor:
    return in_batch_cross_entropy(scores, tf.constant([0]), tf.ones_like(scores, tf.bool))[0]


@pytest.mark.parametrize("seed", range(5))
def test_gradient_of_sum_of_max_is_the_papers(seed):
    """-(1 - p+)/n at the positive's maxima, p-/n at the negatives', nothing elsewhere."""
    rng = np.random.default_rng(seed)
    n, documents_count, m = 4, 3, 6
    queries, documents = axis_queries(rng.uniform(-1, 1, [documents_count, n, m]))
    masks = tf.ones([1, n], tf.bool), tf.ones([documents_count, m], tf.bool)
    with tf.GradientTape() as tape:
        tape.watch(documents)
        scores = maxsim_scores(queries, masks[0], documents, masks[1])
        loss = loss_of(scores)
    probabilities = tf.nn.softmax(scores)[0].numpy()
    expected = np.zeros([documents_count, m, n])
    for d in range(documents_count):
        for i in range(n):
            j = np.argmax(documents[d, :, i])
            expected[d, j, i] = (probabilities[d] - (d == 0)) / n
    np.testing.assert_allclose(tape.gradient(loss, documents), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("k_train", [1, 3, 5, 12])
@pytest.mark.parametrize("seed", range(5))
def test_gradient_of_token_retrieval_is_the_papers(seed, k_train):
    """-(1 - p+)/Z+ and p-/Z- at retrieved maxima, nothing elsewhere and nothing through Z."""
    rng = np.random.default_rng(seed)
    n, documents_count, m = 4, 3, 6
    queries, documents = axis_queries(rng.uniform(-1, 1, [documents_count, n, m]))
    masks = tf.ones([1, n], tf.bool), tf.ones([documents_count, m], tf.bool)
    with tf.GradientTape() as tape:
        tape.watch(documents)
        result = token_retrieval_scores(queries, masks[0], documents, masks[1], k_train)
        loss = loss_of(result.scores)
    probabilities = tf.nn.softmax(result.scores)[0].numpy()
    expected = np.zeros([documents_count, m, n])
    for i in range(n):
        similarities = documents[:, :, i].numpy()
        threshold = np.sort(similarities.ravel())[-k_train]
        for d in range(documents_count):
            j = np.argmax(similarities[d])
            if similarities[d, j] >= threshold:
                expected[d, j, i] = (probabilities[d] - (d == 0)) / result.retrieving_tokens[0, d].numpy()
    np.testing.assert_allclose(tape.gradient(loss, documents), expected, rtol=1e-5, atol=1e-7)


def test_the_failure_of_sum_of_max_is_a_high_loss_under_token_retrieval():
    """Every token of the positive is beaten by one negative: ColBERT's loss is low, but retrieval fails."""
    n = 4
    positive = np.full([n, 1], 0.8)
    negatives = [np.where(np.arange(n)[:, None] == i, 0.81, 0.0) for i in range(n)]
    queries, documents = axis_queries(np.stack([positive, *negatives]))
    masks = tf.ones([1, n], tf.bool), tf.ones([n + 1, 1], tf.bool)
    colbert = maxsim_scores(queries, masks[0], documents, masks[1])
    np.testing.assert_allclose(colbert[0], [0.8] + [0.81 / n] * n, rtol=1e-6)
    xtr = token_retrieval_scores(queries, masks[0], documents, masks[1], k_train=1)
    np.testing.assert_allclose(xtr.scores[0], [0.0] + [0.81] * n, rtol=1e-6)
    sharp = tf.constant([0]), tf.ones([1, n + 1], tf.bool), 0.05
    assert in_batch_cross_entropy(colbert, *sharp)[0] < 0.001
    assert in_batch_cross_entropy(xtr.scores, *sharp)[0] > 16


def test_masked_documents_are_not_in_the_denominator():
    scores = tf.constant([[1.0, 50.0, 2.0], [0.5, 0.1, 0.7]])
    candidates = tf.constant([[True, False, True], [True, True, True]])
    losses = in_batch_cross_entropy(scores, tf.constant([0, 2]), candidates, temperature=0.5)
    expected = [
        -np.log(np.exp(2) / (np.exp(2) + np.exp(4))),
        -np.log(np.exp(1.4) / (np.exp(1) + np.exp(0.2) + np.exp(1.4))),
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_masked_documents_get_no_gradient():
    scores = tf.constant([[1.0, 50.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = in_batch_cross_entropy(scores, tf.constant([0]), tf.constant([[True, False, True]]))
    gradient = tape.gradient(loss, scores)[0].numpy()
    assert gradient[1] == 0
    np.testing.assert_allclose(gradient[0], -gradient[2], rtol=1e-6)
