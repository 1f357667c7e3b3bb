"""A block of a T5 encoder: self-attention and feed-forward, each after a normalisation.

As in `layers.py`, these know sizes only, and all kernels start at zero. Normalisation is
`keras.layers.RMSNormalization`, which computes in float32 under every policy.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from xtr_tf.model.layers import Linear, Shape, dropout, serializable, split_seed


@serializable
class SelfAttention(keras.layers.Layer):
    """Multi-head attention of a sequence to itself.

    T5 leaves out the division of logits by `sqrt(head_dim)` and starts the query kernel
    that much smaller instead. Logits and softmax are float32 under every policy.

    Args:
        num_heads: Attention heads.
        head_dim: Width of one head; `num_heads * head_dim` need not be the width of the inputs.
        dropout: Share of attention weights that training drops.
    """

    def __init__(self, num_heads: int, head_dim: int, dropout: float = 0.0, **kwargs: Any) -> None:
        # The bias stays float32, so casting cannot be left to Keras.
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.dropout = dropout

    def build(self, inputs_shape: Shape, bias_shape: Shape | None = None) -> None:
        """Creates the layers `query`, `key`, `value` and `out`."""
        heads_dim, model_dim = self.num_heads * self.head_dim, inputs_shape[-1]
        for name in ("query", "key", "value"):
            layer = Linear(heads_dim, name=name, dtype=self.dtype_policy)
            layer.build(inputs_shape)
            setattr(self, name, layer)
        self.out = Linear(model_dim, name="out", dtype=self.dtype_policy)
        self.out.build((*inputs_shape[:-1], heads_dim))

    def call(self, inputs: tf.Tensor, bias: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Applies attention.

        Args:
            inputs: `[batch, length, model_dim]`.
            bias: Added to the logits, broadcast to `[batch, heads, length, length]` float32;
                holds the position bias and large negative numbers at pads.
            seed: `[2]` int32 for dropout, or None.

        Returns:
            `[batch, length, model_dim]`.
        """
        query, value = self._heads(self.query(inputs)), self._heads(self.value(inputs))
        key = self._heads(self.key(inputs), axes=(0, 2, 3, 1))
        logits = ops.cast(ops.matmul(query, key), "float32") + bias
        # `ops.softmax` would warn about a text of one token.
        weights = ops.cast(keras.activations.softmax(logits), self.compute_dtype)
        weights = dropout(weights, self.dropout, seed, site=0)
        mixed = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        batch, length = ops.shape(inputs)[:2]
        return self.out(ops.reshape(mixed, (batch, length, self.num_heads * self.head_dim)))

    def compute_output_shape(self, inputs_shape: Shape, bias_shape: Shape | None = None) -> Shape:
        """Returns the shape of the inputs."""
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "dropout": self.dropout,
        }

    def _heads(self, projected: tf.Tensor, axes: tuple[int, ...] = (0, 2, 1, 3)) -> tf.Tensor:
        """`[batch, length, heads * head_dim]` to `[batch, heads, length, head_dim]`, or in another order."""
        batch, length = ops.shape(projected)[:2]
        heads = ops.reshape(projected, (batch, length, self.num_heads, self.head_dim))
        return ops.transpose(heads, axes)


def tanh_gelu(inputs: tf.Tensor) -> tf.Tensor:
    """GELU in its tanh form. `ops.gelu` computes the cube as a power: slow unless a graph is optimised."""
    inner = np.sqrt(2 / np.pi) * (inputs + 0.044715 * (inputs * inputs * inputs))
    return 0.5 * inputs * (1.0 + ops.tanh(inner))


@serializable
class FeedForward(keras.layers.Layer):
    """Two linear maps with a non-linearity between them.

    `gated-gelu`: `(gelu(x @ wi_0) * (x @ wi_1)) @ wo`, GELU in its tanh form
    ([Shazeer, 2020](https://arxiv.org/abs/2002.05202)); `relu`: `relu(x @ wi) @ wo`.

    Args:
        inner_dim: Width between the two maps.
        activation: `gated-gelu` (mT5, T5 1.1) or `relu` (T5 1.0).
        dropout: Share of inner activations that training drops.
    """

    def __init__(
        self, inner_dim: int, activation: str = "gated-gelu", dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inner_dim = inner_dim
        self.activation = activation
        self.dropout = dropout

    def build(self, inputs_shape: Shape) -> None:
        """Creates the layers `wi_0` and `wi_1`, or `wi`, and `wo`."""
        for name in ("wi_0", "wi_1") if self.activation == "gated-gelu" else ("wi",):
            layer = Linear(self.inner_dim, name=name, dtype=self.dtype_policy)
            layer.build(inputs_shape)
            setattr(self, name, layer)
        self.wo = Linear(inputs_shape[-1], name="wo", dtype=self.dtype_policy)
        self.wo.build((*inputs_shape[:-1], self.inner_dim))

    def call(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Applies the two maps.

        Args:
            inputs: `[batch, length, model_dim]`.
            seed: `[2]` int32 for dropout, or None.

        Returns:
            `[batch, length, model_dim]`.
        """
        if self.activation == "gated-gelu":
            inner = tanh_gelu(self.wi_0(inputs)) * self.wi_1(inputs)
        else:
            inner = ops.relu(self.wi(inputs))
        return self.wo(dropout(inner, self.dropout, seed, site=0))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Returns the shape of the inputs."""
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "inner_dim": self.inner_dim,
            "activation": self.activation,
            "dropout": self.dropout,
        }


@serializable
class EncoderBlock(keras.layers.Layer):
    """A transformer block that normalises before its two parts: `x + f(norm(x))`.

    Args:
        num_heads: Attention heads.
        head_dim: Width of one head.
        feed_forward_dim: Inner width of the feed-forward layer.
        feed_forward: Its kind, `gated-gelu` or `relu`.
        dropout: Share that training drops of each part's activations and output.
        norm_epsilon: Added to the mean square in normalisation.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        feed_forward_dim: int,
        feed_forward: str = "gated-gelu",
        dropout: float = 0.0,
        norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        # The bias stays float32, so casting cannot be left to Keras.
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.dropout = dropout
        self.pre_attention_layer_norm = keras.layers.RMSNormalization(
            epsilon=norm_epsilon, dtype=policy, name="pre_attention_layer_norm"
        )
        self.attention = SelfAttention(num_heads, head_dim, dropout, dtype=policy, name="attention")
        self.pre_mlp_layer_norm = keras.layers.RMSNormalization(
            epsilon=norm_epsilon, dtype=policy, name="pre_mlp_layer_norm"
        )
        self.mlp = FeedForward(feed_forward_dim, feed_forward, dropout, dtype=policy, name="mlp")

    def build(self, inputs_shape: Shape, bias_shape: Shape | None = None) -> None:
        """Creates the weights of the four layers."""
        for layer in (self.pre_attention_layer_norm, self.attention, self.pre_mlp_layer_norm, self.mlp):
            layer.build(inputs_shape)

    def call(self, inputs: tf.Tensor, bias: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Applies attention and the feed-forward layer.

        Args:
            inputs: `[batch, length, model_dim]`.
            bias: Added to the attention logits; see `SelfAttention`.
            seed: `[2]` int32 for dropout, or None.

        Returns:
            `[batch, length, model_dim]`.
        """
        attention_seed, mlp_seed = (None, None) if seed is None else split_seed(seed, 2)
        attended = self.attention(self.pre_attention_layer_norm(inputs), bias, attention_seed)
        hidden = inputs + dropout(attended, self.dropout, attention_seed, site=1)
        transformed = self.mlp(self.pre_mlp_layer_norm(hidden), mlp_seed)
        return hidden + dropout(transformed, self.dropout, mlp_seed, site=1)

    def compute_output_shape(self, inputs_shape: Shape, bias_shape: Shape | None = None) -> Shape:
        """Returns the shape of the inputs."""
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "num_heads": self.attention.num_heads,
            "head_dim": self.attention.head_dim,
            "feed_forward_dim": self.mlp.inner_dim,
            "feed_forward": self.mlp.activation,
            "dropout": self.dropout,
            "norm_epsilon": self.pre_mlp_layer_norm.epsilon,
        }
