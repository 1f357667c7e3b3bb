"""T5 self-attention: no biases, no scaling by the square root of the head's width."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from xtr_tf.config.schema import EncoderConfig
from xtr_tf.encoder.dropout import dropout
from xtr_tf.encoder.linear import linear


class SelfAttention(keras.layers.Layer):
    """Multi-head attention of a sequence to itself.

    T5 leaves out the division of logits by `sqrt(head_dim)` and starts the query kernel
    that much smaller instead.

    Args:
        config: The encoder's shape; `num_heads * head_dim` need not be `model_dim`.
    """

    def __init__(self, config: EncoderConfig, **kwargs: Any) -> None:
        # The bias stays float32, so casting cannot be left to Keras.
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def build(self, input_shape: Any = None) -> None:
        """Creates the kernels `query`, `key`, `value` and `out`."""
        model, heads = self.config.model_dim, self.config.num_heads * self.config.head_dim
        self.query = self.add_weight(name="query", shape=(model, heads), initializer="zeros")
        self.key = self.add_weight(name="key", shape=(model, heads), initializer="zeros")
        self.value = self.add_weight(name="value", shape=(model, heads), initializer="zeros")
        self.out = self.add_weight(name="out", shape=(heads, model), initializer="zeros")

    def call(self, inputs: tf.Tensor, bias: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Attends.

        Args:
            inputs: `[batch, length, model_dim]`.
            bias: Added to the logits in float32, broadcast to `[batch, heads, length, length]`;
                holds the position bias and large negative numbers at pads.
            seed: `[2]` int32 for dropout, or None.

        Returns:
            `[batch, length, model_dim]`.
        """
        query, key, value = (self._project(inputs, kernel) for kernel in (self.query, self.key, self.value))
        logits = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32) + bias
        weights = tf.cast(tf.nn.softmax(logits), self.compute_dtype)
        weights = dropout(weights, self.config.dropout, seed, site=0)
        mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        shape = tf.shape(inputs)
        mixed = tf.reshape(mixed, [shape[0], shape[1], self.config.num_heads * self.config.head_dim])
        return linear(mixed, tf.cast(self.out, self.compute_dtype))

    def _project(self, inputs: tf.Tensor, kernel: keras.Variable) -> tf.Tensor:
        """`[batch, length, model_dim]` to `[batch, heads, length, head_dim]`."""
        shape = tf.shape(inputs)
        projected = linear(inputs, tf.cast(kernel, self.compute_dtype))
        heads = tf.reshape(projected, [shape[0], shape[1], self.config.num_heads, self.config.head_dim])
        return tf.transpose(heads, [0, 2, 1, 3])
