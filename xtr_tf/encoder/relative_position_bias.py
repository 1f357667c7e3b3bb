"""T5's relative position bias: one learned number per head and per bucket of distances."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf


def distance_buckets(num_buckets: int, max_distance: int) -> np.ndarray:
    """Buckets of the distances `-max_distance .. max_distance` (key minus query position).

    Half of the buckets are for keys after the query. In each half, the first half counts
    distances one by one, the rest grow with the logarithm of the distance; from
    `max_distance` on all share the last one.

    Returns:
        `[2 * max_distance + 1]` int32.
    """
    half = num_buckets // 2
    exact = half // 2
    distance = np.arange(-max_distance, max_distance + 1)
    magnitude = np.abs(distance)
    # The epsilon keeps distances that are exact powers from falling short by a rounding error.
    ratio = np.maximum(magnitude, 1).astype(np.float32) / exact + np.finfo(np.float32).eps
    growth = np.log(ratio) / np.log(max_distance / exact) * (half - exact)
    logarithmic = np.minimum(exact + growth.astype(np.int32), half - 1)
    bucket = np.where(magnitude < exact, magnitude, logarithmic)
    return (bucket + half * (distance > 0)).astype(np.int32)


class RelativePositionBias(keras.layers.Layer):
    """The bias that is added to attention logits, computed once and shared by all blocks.

    Args:
        num_heads: Attention heads.
        num_buckets: Buckets of distances, both directions together.
        max_distance: Distance from which all positions share a bucket.
    """

    def __init__(self, num_heads: int, num_buckets: int, max_distance: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self._buckets = distance_buckets(num_buckets, max_distance)

    def build(self, input_shape: Any = None) -> None:
        """Creates the embedding of distances, `[heads, buckets]`."""
        self.rel_embedding = self.add_weight(
            name="rel_embedding",
            shape=(self.num_heads, self.num_buckets),
            initializer="zeros",
            autocast=False,
        )

    def call(self, length: tf.Tensor) -> tf.Tensor:
        """Bias of every query and key position, `[1, heads, length, length]` float32.

        Args:
            length: Scalar int32, tokens of a row.
        """
        by_distance = tf.gather(tf.convert_to_tensor(self.rel_embedding), self._buckets, axis=1)
        positions = tf.range(length)
        distance = positions[tf.newaxis, :] - positions[:, tf.newaxis]
        distance = tf.clip_by_value(distance, -self.max_distance, self.max_distance)
        return tf.gather(by_distance, distance + self.max_distance, axis=1)[tf.newaxis]
