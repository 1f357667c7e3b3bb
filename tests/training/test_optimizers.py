"""Our optimisers against Keras', and sparse gradients against dense ones."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.schema import TrainingConfig
from xtr_tf.training.optimizers import Adafactor, AdamW, combine_duplicates, global_norm, learning_rate, scale

SHAPES = [(160, 130), (40,), (3,)]


def random_arrays(rng: np.random.Generator, deviation: float) -> list[np.ndarray]:
    return [(rng.normal(size=shape) * deviation).astype(np.float32) for shape in SHAPES]


@pytest.mark.parametrize(
    ("make_ours", "make_theirs"),
    [
        (Adafactor, lambda: keras.optimizers.Adafactor(0.01, relative_step=False)),
        (
            lambda variables: AdamW(variables, 0.1),
            lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-8),
        ),
    ],
    ids=["adafactor", "adamw"],
)
def test_updates_are_those_of_keras(make_ours, make_theirs):
    rng = np.random.default_rng(0)
    start = random_arrays(rng, 0.5)
    ours, theirs = [tf.Variable(a) for a in start], [keras.Variable(a) for a in start]
    optimizer, reference = make_ours(ours), make_theirs()
    if isinstance(optimizer, AdamW):
        # Vectors are never decayed here; Keras has to be told.
        reference.exclude_from_weight_decay(var_list=theirs[1:])
    reference.build(theirs)
    for step in range(5):
        gradients = random_arrays(rng, 10.0 ** (step - 3))
        optimizer.apply([tf.constant(g) for g in gradients], tf.constant(0.01), tf.constant(step))
        reference.apply([tf.constant(g) for g in gradients], theirs)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "make", [Adafactor, lambda variables: AdamW(variables, 0.0)], ids=["adafactor", "adamw"]
)
@pytest.mark.parametrize("shape", [(300, 128), (50, 4)], ids=["factored", "whole"])
def test_a_sparse_gradient_moves_what_a_dense_one_does(make, shape):
    rng = np.random.default_rng(1)
    start = rng.normal(size=shape).astype(np.float32)
    sparse, dense = tf.Variable(start), tf.Variable(start)
    optimizers = make([sparse]), make([dense])
    for step in range(4):
        rows = rng.integers(0, shape[0], 12)
        slices = tf.IndexedSlices(
            tf.constant(rng.normal(size=[12, shape[1]]).astype(np.float32)),
            tf.constant(rows),
            tf.constant(shape),
        )
        rate, number = tf.constant(0.1), tf.constant(step)
        optimizers[0].apply([combine_duplicates(slices)], rate, number)
        optimizers[1].apply([tf.convert_to_tensor(slices)], rate, number)
        np.testing.assert_allclose(sparse, dense, rtol=1e-5, atol=1e-6)
        for mine, other in zip(optimizers[0].slots[0], optimizers[1].slots[0], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-12)
    assert np.abs(sparse - start).max() > 0


def test_the_norm_and_scale_of_sparse_and_dense_gradients():
    slices = tf.IndexedSlices(tf.constant([[3.0], [1.0], [4.0]]), tf.constant([2, 0, 2]), tf.constant([5, 1]))
    combined = combine_duplicates(slices)
    np.testing.assert_array_equal(tf.convert_to_tensor(combined), tf.convert_to_tensor(slices))
    gradients = [combined, tf.constant([2.0])]
    assert global_norm(gradients).numpy() == pytest.approx(np.sqrt(7**2 + 1 + 4))
    np.testing.assert_allclose(
        tf.convert_to_tensor(scale(combined, tf.constant(0.5))), [[0.5], [0], [3.5], [0], [0]]
    )


def test_the_learning_rate_rises_and_then_stays_or_falls():
    constant = TrainingConfig(learning_rate=0.1, warmup_steps=10)
    falling = TrainingConfig(learning_rate=0.1, warmup_steps=10, schedule="inverse_sqrt")
    for step, expected in ((0, 0.01), (4, 0.05), (9, 0.1)):
        assert learning_rate(constant, tf.constant(step)).numpy() == pytest.approx(expected)
        assert learning_rate(falling, tf.constant(step)).numpy() == pytest.approx(expected)
    assert learning_rate(constant, tf.constant(39)).numpy() == pytest.approx(0.1)
    assert learning_rate(falling, tf.constant(39)).numpy() == pytest.approx(0.05)
    assert learning_rate(TrainingConfig(warmup_steps=0), tf.constant(0)).numpy() == pytest.approx(1e-3)
