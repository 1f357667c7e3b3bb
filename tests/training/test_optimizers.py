"""Our Adafactor against Keras', sparse gradients against dense ones, and schedules."""

from __future__ import annotations

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.training import TrainingConfig
from xtr_tf.training.gradients import combine_duplicates, scale
from xtr_tf.training.optimizers import Adafactor, InverseSquareRoot, LinearEnd, make_optimizer, make_schedule

SHAPES = [(160, 130), (40,), (3,)]


def random_arrays(rng: np.random.Generator, deviation: float) -> list[np.ndarray]:
    return [(rng.normal(size=shape) * deviation).astype(np.float32) for shape in SHAPES]


def test_updates_are_those_of_keras_adafactor():
    """Where both do the same: no matrix with a short side, and a rate that Keras does not cut."""
    rng = np.random.default_rng(0)
    start = random_arrays(rng, 0.5)
    ours, theirs = [keras.Variable(a) for a in start], [keras.Variable(a) for a in start]
    optimizer, reference = Adafactor(0.01), keras.optimizers.Adafactor(0.01, relative_step=False)
    for step in range(5):
        gradients = [tf.constant(g) for g in random_arrays(rng, 10.0 ** (step - 3))]
        optimizer.apply(gradients, ours)
        reference.apply(gradients, theirs)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=2e-5, atol=2e-6)
    assert int(optimizer.iterations.numpy()) == 5


def test_adamw_is_keras_own_and_decays_matrices_only():
    rng = np.random.default_rng(0)
    start = random_arrays(rng, 0.5)
    variables = [keras.Variable(a) for a in start]
    config = TrainingConfig(optimizer="adamw", learning_rate=0.01, warmup_steps=0, weight_decay=0.1)
    optimizer = make_optimizer(config, variables)
    assert type(optimizer) is keras.optimizers.AdamW
    gradients = random_arrays(rng, 1.0)
    optimizer.apply([tf.constant(g) for g in gradients], variables)
    for variable, before, gradient in zip(variables, start, gradients, strict=True):
        decayed = before * (1 - 0.01 * 0.1) if before.ndim > 1 else before
        moved = 0.01 * gradient / (np.abs(gradient) + 1e-8 / np.sqrt(1 - 0.999))
        np.testing.assert_allclose(variable.numpy(), decayed - moved, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(300, 128), (50, 4)], ids=["factored", "whole"])
def test_a_sparse_gradient_moves_what_a_dense_one_does(shape):
    """Rows of equal index included, which count as their sum."""
    rng = np.random.default_rng(1)
    start = rng.normal(size=shape).astype(np.float32)
    sparse, dense = keras.Variable(start), keras.Variable(start)
    optimizers = Adafactor(0.1), Adafactor(0.1)
    for _ in range(4):
        rows = rng.integers(0, shape[0], 12)
        rows[1] = rows[0]
        slices = tf.IndexedSlices(
            tf.constant(rng.normal(size=[12, shape[1]]).astype(np.float32)),
            tf.constant(rows),
            tf.constant(shape),
        )
        optimizers[0].apply([slices], [sparse])
        optimizers[1].apply([tf.convert_to_tensor(slices)], [dense])
        np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-5, atol=1e-6)
        for mine, other in zip(optimizers[0].variables, optimizers[1].variables, strict=True):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-12)
    assert np.abs(sparse.numpy() - start).max() > 0


@pytest.mark.parametrize(
    "optimizer",
    [Adafactor(InverseSquareRoot(0.1, 10), min_factored_dim=64), Adafactor(0.5, clip_threshold=2.0)],
)
def test_adafactor_comes_back_from_its_configuration(optimizer):
    config = keras.optimizers.serialize(optimizer)
    again = keras.optimizers.deserialize(json.loads(json.dumps(config)))
    assert type(again) is Adafactor
    assert again.get_config() == optimizer.get_config()
    assert float(again.learning_rate) == float(optimizer.learning_rate)


def test_factored_moments_take_a_number_per_row_and_column():
    optimizer = Adafactor()
    optimizer.build([keras.Variable(np.zeros(shape, np.float32)) for shape in [(200, 128), (200, 127)]])
    assert [tuple(v.shape) for v in optimizer.variables[2:]] == [(200,), (128,), (200, 127)]


def test_the_norm_and_scale_of_sparse_and_dense_gradients():
    slices = tf.IndexedSlices(tf.constant([[3.0], [1.0], [4.0]]), tf.constant([2, 0, 2]), tf.constant([5, 1]))
    combined = combine_duplicates(slices)
    np.testing.assert_array_equal(tf.convert_to_tensor(combined), tf.convert_to_tensor(slices))
    gradients = [combined, tf.constant([2.0])]
    assert tf.linalg.global_norm(gradients).numpy() == pytest.approx(np.sqrt(7**2 + 1 + 4))
    np.testing.assert_allclose(
        tf.convert_to_tensor(scale(combined, tf.constant(0.5))), [[0.5], [0], [3.5], [0], [0]]
    )


def rate(config: TrainingConfig, step: int) -> float:
    return float(make_schedule(config)(step))


def test_the_learning_rate_rises_and_then_stays_or_falls():
    constant = TrainingConfig(learning_rate=0.1, warmup_steps=10)
    falling = TrainingConfig(learning_rate=0.1, warmup_steps=10, schedule="inverse_sqrt")
    for step, expected in ((0, 0.01), (4, 0.05), (9, 0.1)):
        assert rate(constant, step) == pytest.approx(expected)
        assert rate(falling, step) == pytest.approx(expected)
    assert rate(constant, 39) == pytest.approx(0.1)
    assert rate(falling, 39) == pytest.approx(0.05)
    assert rate(TrainingConfig(warmup_steps=0), 0) == pytest.approx(1e-3)
    assert rate(TrainingConfig(warmup_steps=0, schedule="inverse_sqrt"), 3) == pytest.approx(5e-4)


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
@pytest.mark.parametrize("warmup_steps", [0, 10])
def test_the_last_steps_bring_the_rate_down_to_zero(schedule, warmup_steps):
    endless = TrainingConfig(learning_rate=0.1, warmup_steps=warmup_steps, schedule=schedule, steps=100)
    ending = dataclasses.replace(endless, decay_steps=20)
    for step, share in ((0, 1), (50, 1), (80, 1), (90, 0.5), (99, 0.05), (100, 0), (120, 0)):
        assert rate(ending, step) == pytest.approx(share * rate(endless, step))


@pytest.mark.parametrize("inner", [0.5, InverseSquareRoot(0.5, 3)])
def test_an_ending_schedule_comes_back_from_its_configuration(inner):
    schedule = LinearEnd(inner, 50, 10)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert [float(again(step)) for step in (1, 45)] == [float(schedule(step)) for step in (1, 45)]
