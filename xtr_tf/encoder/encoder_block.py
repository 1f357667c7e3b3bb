"""One T5 encoder block: self-attention and feed-forward, each normalised before and added after."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from xtr_tf.config.schema import EncoderConfig
from xtr_tf.encoder.dropout import dropout
from xtr_tf.encoder.feed_forward import FeedForward
from xtr_tf.encoder.rms_norm import RMSNorm
from xtr_tf.encoder.self_attention import SelfAttention


class EncoderBlock(keras.layers.Layer):
    """A pre-norm transformer block.

    Args:
        config: The encoder's shape.
    """

    def __init__(self, config: EncoderConfig, **kwargs: Any) -> None:
        # The bias stays float32, so casting cannot be left to Keras.
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.pre_attention_layer_norm = RMSNorm(config.norm_epsilon, dtype=config.dtype)
        self.attention = SelfAttention(config, name="attention", dtype=config.dtype)
        self.pre_mlp_layer_norm = RMSNorm(config.norm_epsilon, dtype=config.dtype)
        self.mlp = FeedForward(config, name="mlp", dtype=config.dtype)

    def build(self, input_shape: Any) -> None:
        """Creates the weights of the four layers."""
        for layer in (self.pre_attention_layer_norm, self.attention, self.pre_mlp_layer_norm, self.mlp):
            layer.build(input_shape)

    def call(self, inputs: tf.Tensor, bias: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Transforms `[batch, length, model_dim]`; `bias` and `seed` as for `SelfAttention`."""
        attention_seed, mlp_seed = (None, None) if seed is None else _split(seed)
        attended = self.attention(self.pre_attention_layer_norm(inputs), bias, attention_seed)
        hidden = inputs + dropout(attended, self.config.dropout, attention_seed, site=1)
        transformed = self.mlp(self.pre_mlp_layer_norm(hidden), mlp_seed)
        return hidden + dropout(transformed, self.config.dropout, mlp_seed, site=1)


def _split(seed: tf.Tensor) -> list[tf.Tensor]:
    return tf.unstack(tf.random.experimental.stateless_split(seed, 2))
