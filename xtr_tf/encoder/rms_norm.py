"""Root-mean-square normalisation, T5's layer norm: a scale, no mean and no bias."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class RMSNorm(keras.layers.Layer):
    """Divides by the root mean square of the last axis and scales.

    Computed in float32 whatever the layer's compute dtype
    ([Zhang and Sennrich, 2019](https://arxiv.org/abs/1910.07467)).

    Args:
        epsilon: Added to the mean square.
    """

    def __init__(self, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the scale, `[dim]`, of ones."""
        self.scale = self.add_weight(
            name="scale", shape=(input_shape[-1],), initializer="ones", autocast=False
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises `[..., dim]`."""
        values = tf.cast(inputs, tf.float32)
        mean_square = tf.reduce_mean(tf.square(values), axis=-1, keepdims=True)
        normalized = values * tf.math.rsqrt(mean_square + self.epsilon) * self.scale
        return tf.cast(normalized, self.compute_dtype)
