"""The flattened product against `tf.matmul`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.model.layers import Linear


@pytest.mark.parametrize("leading", [(5,), (3, 4), (2, 3, 4), (0, 4)])
def test_value_and_gradients_equal_those_of_matmul(leading):
    rng = np.random.default_rng(0)
    inputs = tf.constant(rng.normal(size=[*leading, 6]).astype(np.float32))
    layer = Linear(7)
    layer.build((None, 6))
    layer.kernel.assign(rng.normal(size=[6, 7]))
    kernel = layer.kernel.value
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        ours, theirs = tf.function(layer)(inputs), tf.matmul(inputs, kernel)
    np.testing.assert_allclose(
        ours, theirs, rtol=0, atol=rounding(6, np.abs(inputs).sum(-1).max(initial=0) * np.abs(kernel).max())
    )
    for source in (inputs, kernel):
        np.testing.assert_allclose(
            tape.gradient(ours, source), tape.gradient(theirs, source), rtol=1e-5, atol=1e-5
        )


def test_known_sizes_stay_known():
    layer = Linear(7)
    layer.build((None, 6))
    traced = tf.function(layer).get_concrete_function(tf.TensorSpec([None, 4, 6]))
    assert traced.output_shapes.as_list() == [None, 4, 7]
