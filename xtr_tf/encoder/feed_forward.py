"""T5's feed-forward layers: gated GELU (mT5, T5 1.1) and plain ReLU (T5 1.0), without biases."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from xtr_tf.config.schema import EncoderConfig
from xtr_tf.encoder.dropout import dropout
from xtr_tf.encoder.linear import linear


class FeedForward(keras.layers.Layer):
    """Two linear maps with a non-linearity between.

    `gated-gelu`: `(gelu(x @ wi_0) * (x @ wi_1)) @ wo`, GELU in its tanh form
    ([Shazeer, 2020](https://arxiv.org/abs/2002.05202)); `relu`: `relu(x @ wi) @ wo`.

    Args:
        config: The encoder's shape.
    """

    def __init__(self, config: EncoderConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.is_gated = config.feed_forward == "gated-gelu"

    def build(self, input_shape: Any = None) -> None:
        """Creates the kernels."""
        model, inner = self.config.model_dim, self.config.feed_forward_dim
        names = ("wi_0", "wi_1") if self.is_gated else ("wi",)
        for name in names:
            setattr(self, name, self.add_weight(name=name, shape=(model, inner), initializer="zeros"))
        self.wo = self.add_weight(name="wo", shape=(inner, model), initializer="zeros")

    def call(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Maps `[batch, length, model_dim]` to the same shape."""
        if self.is_gated:
            gate = tf.nn.gelu(linear(inputs, self.wi_0), approximate=True)
            inner = gate * linear(inputs, self.wi_1)
        else:
            inner = tf.nn.relu(linear(inputs, self.wi))
        inner = dropout(inner, self.config.dropout, seed, site=0)
        return linear(inner, self.wo)
