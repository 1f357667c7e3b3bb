from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.model.layers import RelativePositionBias, distance_buckets

# First distance of every bucket from the eighth on, as T5's 32 buckets up to 128 divide them.
T5_STARTS = [8, 12, 16, 23, 32, 46, 64, 91]


def test_buckets_of_t5():
    buckets = distance_buckets(32, 128)
    before, after = buckets[128::-1], buckets[129:]
    assert before[:8].tolist() == list(range(8))
    starts = [int(np.argmax(before == bucket)) for bucket in range(8, 16)]
    assert starts == T5_STARTS
    np.testing.assert_array_equal(after, before[1:] + 16)
    assert set(buckets) == set(range(32)) - {16}


@pytest.mark.parametrize("length", [1, 5, 300])
def test_bias_depends_only_on_the_distance(length):
    layer = RelativePositionBias(num_heads=2, num_buckets=32, max_distance=128)
    layer.build((None, None))
    layer.rel_embedding.assign(np.arange(64).reshape(2, 32))
    bias = layer(tf.zeros([1, length], tf.int32)).numpy()
    assert bias.shape == (1, 2, length, length)
    buckets = distance_buckets(32, 128)
    for query, key in [(0, 0), (0, length - 1), (length - 1, 0), (length // 2, length // 3)]:
        distance = np.clip(key - query, -128, 128)
        assert bias[0, 1, query, key] == 32 + buckets[distance + 128]
        assert bias[0, 0, query, key] == buckets[distance + 128]


def test_gradient_reaches_every_bucket_in_use():
    layer = RelativePositionBias(num_heads=2, num_buckets=32, max_distance=128)
    layer.build((None, None))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.zeros([3, 512], tf.int32)))
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.rel_embedding.value)).numpy()
    assert gradient.sum() == 2 * 512 * 512
    assert (gradient > 0).sum() == 2 * 31
