"""The layers of a T5 encoder: token embedding, position bias, attention, feed-forward, block.

Keras layers with `get_config`, which any Keras model may use. They know sizes only: presets, canonical
weight names and the order of layers belong to the encoder. All kernels start at zero, because the
encoder sets every weight by name.

Normalisation is `keras.layers.RMSNormalization`, which computes in float32 under every policy. `Linear`,
`dropout` and `tanh_gelu` replace Keras' own; each of them says why.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

# The size of each axis, None if unknown.
Shape = tuple[Any, ...]
_serializable = keras.saving.register_keras_serializable(package="xtr_tf")


@_serializable
class Linear(keras.layers.Dense):
    """`keras.layers.Dense` without a bias, as one matrix product.

    Keras multiplies a batch of rank 3 by its kernel with one product per text, and its gradient sums one
    kernel per text. With the leading axes flattened, both are a single product, which saves 5 to 10% of the
    processor time of a forward and backward pass (`t5_1_1_tiny`, 64 texts of 128 tokens).

    Args:
        units: Width of the output.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **{"use_bias": False, "kernel_initializer": "zeros", **kwargs})

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Maps `[..., inputs]` to `[..., units]`."""
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        outputs = super().call(rows, training=training)
        return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units))


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int) -> tf.Tensor:
    """Zeroes a share of `inputs` and scales up the rest; the identity without a seed.

    `keras.layers.Dropout` draws from a generator that advances with every call. Here the mask is a
    function of the seed, because the same mask is needed again when a run is resumed, when a block is
    recomputed in the backward pass, and when gradient caching encodes a chunk for the second time.

    Args:
        inputs: Tensor of any shape.
        rate: Share to drop, in [0, 1).
        seed: `[2]` int32, or None outside training.
        site: A number that differs between the places that share a seed.

    Returns:
        A tensor like `inputs`.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, tf.random.experimental.stateless_fold_in(seed, site)
    )


@_serializable
class TokenEmbedder(keras.layers.Layer):
    """Maps token ids to the input of the first block.

    `keras.layers.Embedding` reads its whole table before it looks rows up, and TensorFlow copies a
    variable on every read once sparse gradients have updated it: 48 ms of processor time instead of
    1.6 for 5,120 tokens of mT5-small. Here the rows are looked up in the variable itself, and only
    those rows are cast.

    Args:
        vocabulary_size: Number of ids.
        model_dim: Width of the residual stream.
        embedding_dim: Width of the table, whose rows a kernel maps to `model_dim`. It makes a small encoder
            with a large vocabulary smaller. 0 for a table of width `model_dim` without a kernel.
    """

    def __init__(self, vocabulary_size: int, model_dim: int, embedding_dim: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.model_dim = model_dim
        self.embedding_dim = embedding_dim

    def build(self, ids_shape: Shape) -> None:
        """Creates the table, float32 under every policy, and the kernel if the table is narrower."""
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.vocabulary_size, self.embedding_dim or self.model_dim),
            initializer="zeros",
            autocast=False,
        )
        if self.embedding_dim:
            self.kernel = self.add_weight(
                name="kernel", shape=(self.embedding_dim, self.model_dim), initializer="zeros"
            )

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Embeds `[batch, length]` ids as `[batch, length, model_dim]`."""
        rows = ops.cast(tf.gather(self.embedding.value, ids), self.compute_dtype)
        return ops.matmul(rows, self.kernel) if self.embedding_dim else rows

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        """`[batch, length]` to `[batch, length, model_dim]`."""
        return (*ids_shape, self.model_dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "model_dim": self.model_dim,
            "embedding_dim": self.embedding_dim,
        }


def distance_buckets(num_buckets: int, max_distance: int) -> np.ndarray:
    """Buckets of the distances `-max_distance .. max_distance` (key minus query position).

    Half of the buckets are for keys after the query. Within each half, the first half of the buckets
    have one distance each, and the others grow with the logarithm of the distance. All distances from
    `max_distance` on share the last one.

    Args:
        num_buckets: Buckets for both directions together.
        max_distance: Distance from which on all share the last bucket.

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


@_serializable
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

    def build(self, ids_shape: Shape) -> None:
        """Creates the embedding of distances, `[heads, buckets]`."""
        self.rel_embedding = self.add_weight(
            name="rel_embedding",
            shape=(self.num_heads, self.num_buckets),
            initializer="zeros",
            autocast=False,
        )

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Bias of every query and key position, `[1, heads, length, length]` float32.

        Args:
            ids: `[batch, length]`, of which only the length counts.
        """
        by_distance = ops.take(self.rel_embedding, self._buckets, axis=1)
        positions = ops.arange(ops.shape(ids)[1])
        distance = positions[None, :] - positions[:, None]
        distance = ops.clip(distance, -self.max_distance, self.max_distance)
        return ops.take(by_distance, distance + self.max_distance, axis=1)[None]

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        """`[batch, length]` to `[1, heads, length, length]`."""
        return (1, self.num_heads, ids_shape[1], ids_shape[1])

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
        }


@_serializable
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


@_serializable
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


@_serializable
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


def split_seed(seed: tf.Tensor, count: int) -> list[tf.Tensor]:
    """`count` seeds, `[2]` each, that are functions of one `[2]` seed.

    Args:
        seed: `[2]` int32.
        count: Number of seeds.

    Returns:
        Tensors of `[2]` int32.
    """
    return tf.unstack(tf.random.experimental.stateless_split(seed, count))
