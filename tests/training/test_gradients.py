"""Gradient caching gives the gradient of the whole batch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding
from xtr_tf.config.training import LossConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.batch_loss import batch_loss, statistic_names
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.gradients import chunked_gradients, whole_batch_gradients

LOSS = LossConfig(k_train=12, temperature=0.1)
# One layer of 128 wide there and back; the loss divides what it does to a score by the temperature.
TOLERANCE = network_rounding(1_500) / LOSS.temperature


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Eight queries with one hard negative each, of ragged lengths."""
    rng = np.random.default_rng(0)

    def ids(rows: int, length: int) -> tf.Tensor:
        lengths = rng.integers(2, length + 1, [rows, 1])
        return tf.constant(
            (rng.integers(3, 200, [rows, length]) * (np.arange(length) < lengths)).astype(np.int32)
        )

    return Batch(
        query_ids=ids(8, 6),
        document_ids=ids(16, 10),
        positive_keys=tf.zeros([8, 1, 3, 2], tf.int32),
        document_keys=tf.zeros([16, 3, 2], tf.int32),
        teacher_scores=tf.fill([8, 2], np.nan),
    )


def dense(gradients):
    return [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


@pytest.mark.parametrize("chunks", [2, 8])
def test_chunks_give_the_gradient_of_the_whole_batch(base_run, batch, chunks):
    encoder = Encoder(dataclasses.replace(base_run.encoder, dropout=0.0))
    variables = [variable.value for variable in encoder.trainable_variables]
    seed = tf.constant([0, 1])

    def encode(ids, seed):
        return encoder(ids, training=True, seed=seed)

    whole_loss, whole = tf.function(
        lambda: whole_batch_gradients(encode, variables, LOSS, batch, seed), autograph=False
    )()
    chunked_loss, chunked = tf.function(
        lambda: chunked_gradients(encode, variables, LOSS, batch, seed, chunks), autograph=False
    )()
    assert chunked_loss.loss.numpy() == pytest.approx(whole_loss.loss.numpy(), abs=TOLERANCE)
    assert isinstance(chunked[0], tf.IndexedSlices) == isinstance(whole[0], tf.IndexedSlices)
    for ours, theirs in zip(dense(chunked), dense(whole), strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * np.abs(theirs).max())


def test_both_passes_of_a_chunk_drop_the_same(base_run, batch):
    """The gradient is that of the very loss which was returned, noise included."""
    encoder = Encoder(dataclasses.replace(base_run.encoder, dropout=0.5))
    scale = tf.Variable(1.0)
    loss = LossConfig(score="colbert", temperature=0.1)

    def encode(ids, seed):
        return encoder(ids, training=True, seed=seed) * scale

    def run():
        result, (gradient,) = chunked_gradients(encode, [scale], loss, batch, tf.constant([3, 4]), 4)
        return result.loss.numpy(), gradient.numpy()

    value, gradient = run()
    assert run()[0] == value
    scale.assign(1.01)
    above = run()[0]
    scale.assign(0.99)
    assert gradient == pytest.approx((above - run()[0]) / 0.02, rel=1e-2)


@pytest.mark.parametrize(
    "loss",
    [LossConfig(score="colbert"), LossConfig(k_train=4, distillation_weight=0.5)],
    ids=["colbert", "xtr"],
)
def test_statistics_have_the_announced_names(loss, batch):
    rng = np.random.default_rng(0)
    vectors = [
        tf.math.l2_normalize(tf.constant(rng.normal(size=[r, n, 4]).astype("f")), -1)
        for r, n in ((8, 6), (16, 10))
    ]
    result = batch_loss(loss, batch, *vectors)
    assert sorted(result.statistics) == sorted(statistic_names(loss))
    assert np.isfinite(result.loss)
