"""Gradient caching gives the gradient of the whole batch; taught texts add their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding, rounding
from xtr_tf.config.training import LossConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.batch_loss import batch_loss, statistic_names
from xtr_tf.training.data.batches import Batch, MixedBatch, TaughtTexts
from xtr_tf.training.gradients import chunked_gradients, taught_gradients, whole_batch_gradients
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.step import TrainingStep

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


@pytest.fixture(scope="module")
def taught() -> TaughtTexts:
    """Five texts; every third token has a target, those of padding are none."""
    rng = np.random.default_rng(5)
    ids = (rng.integers(3, 200, [5, 7]) * (np.arange(7) < [[7], [3], [5], [1], [6]])).astype(np.int32)
    targets = rng.normal(size=[5, 7, 16]).astype(np.float32)
    targets *= (ids > 0)[..., None] & (rng.random([5, 7, 1]) < 0.4)
    lengths = np.linalg.norm(targets, axis=-1, keepdims=True)
    return TaughtTexts(tf.constant(ids), tf.constant(targets / np.maximum(lengths, 1e-9)))


def test_taught_tokens_are_drawn_to_their_targets(taught):
    """The distance is a mean over the tokens that have a target, and its gradient minus the target."""
    vectors = tf.Variable(np.random.default_rng(1).normal(size=[5, 7, 16]).astype(np.float32))
    distance, (gradient,) = taught_gradients(
        lambda ids, seed: tf.identity(vectors), [vectors], taught, None, 3.0
    )
    targets = taught.targets.numpy()
    counted = targets.any(axis=-1)
    assert 0 < counted.sum() < counted.size
    cosines = [vectors[i].numpy() @ targets[i] for i in zip(*np.nonzero(counted), strict=True)]
    np.testing.assert_allclose(distance, 1 - np.mean(cosines), rtol=0, atol=rounding(16 + len(cosines), 4))
    np.testing.assert_allclose(gradient, -3 * targets / counted.sum(), rtol=0, atol=rounding(16))
    nothing = taught._replace(targets=tf.zeros_like(taught.targets))
    distance, (gradient,) = taught_gradients(
        lambda ids, seed: tf.identity(vectors), [vectors], nothing, None, 1.0
    )
    assert distance == 0
    assert not np.any(gradient)


def test_a_mixed_step_adds_what_examples_and_texts_ask_for(base_run, batch, taught):
    loss = dataclasses.replace(LOSS, teacher_vector_weight=0.5)
    config = dataclasses.replace(
        base_run, loss=loss, training=dataclasses.replace(base_run.training, steps=1)
    )
    encoder = Encoder(config.encoder)
    optimizer = make_optimizer(config.training, encoder.trainable_variables)
    step = TrainingStep(config, tf.distribute.get_strategy(), encoder, optimizer)
    (apart, first), (texts, second), (mixed, both) = (
        tf.function(step.gradients, autograph=False)(part)
        for part in (batch, taught, MixedBatch(batch, taught))
    )
    assert mixed["loss"].numpy() == pytest.approx(
        apart["loss"].numpy() + 0.5 * texts["teacher_distance"].numpy()
    )
    assert mixed["tokens"] == apart["tokens"] + texts["tokens"]
    assert mixed["accuracy"] == apart["accuracy"]
    assert isinstance(both[0], tf.IndexedSlices)
    for ours, one, other in zip(dense(both), dense(first), dense(second), strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(ours, one + other, rtol=0, atol=TOLERANCE * np.abs(one + other).max())


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
