"""A linear map of the last axis, as one matrix product."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xtr_tf.config.schema import EncoderConfig


def linear(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """`inputs @ kernel` with all leading axes flattened into one.

    `tf.matmul` of a batch by one kernel makes a product per row of the batch, and its gradient a
    kernel per row, to be summed: flattened, both are one large product.

    Args:
        inputs: `[..., inputs]`.
        kernel: `[inputs, outputs]` of the same dtype.

    Returns:
        `[..., outputs]`.
    """
    kernel = tf.convert_to_tensor(kernel)
    rows = tf.reshape(inputs, [-1, kernel.shape[0]])
    outputs = tf.matmul(rows, kernel)
    leading = tf.shape(inputs)[:-1]
    shaped = tf.reshape(outputs, tf.concat([leading, [kernel.shape[1]]], axis=0))
    return tf.ensure_shape(shaped, [*inputs.shape[:-1], kernel.shape[1]])


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int) -> tf.Tensor:
    """Zeroes a share of `inputs` and scales up the rest; the identity without a seed.

    Args:
        inputs: Tensor of any shape.
        rate: Share to drop, in [0, 1).
        seed: `[2]` int32, or None outside training.
        site: Tells apart the places that share a seed.

    Returns:
        A tensor like `inputs`.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, tf.random.experimental.stateless_fold_in(seed, site)
    )


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
