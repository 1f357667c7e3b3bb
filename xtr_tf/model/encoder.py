"""The XTR encoder: a T5 encoder, a projection of every token, and unit length.

Knows ids and vectors. Text belongs to the tokenizer, foreign weight formats to the importers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xtr_tf.config.schema import EncoderConfig
from xtr_tf.model.layers import EncoderBlock, RelativePositionBias, RMSNorm, dropout, linear
from xtr_tf.model.weights import check_weights, initial_weight, weight_shapes

# Far below any logit, yet finite: a row of nothing but pads must not become NaN.
_PAD_LOGIT = -1e9


class Encoder(keras.Model):
    """Token ids to L2-normalised token vectors.

    `encoder(ids)` gives the vectors, `encoder.mask(ids)` which of them are tokens: the
    vectors of pads are exactly zero, and no other vector depends on how many pads there are
    nor on the other rows of the batch. Pad id is 0, as in every T5 vocabulary.

    The method is that of [XTR](https://arxiv.org/abs/2304.01982) on
    [T5](https://arxiv.org/abs/1910.10683).

    Args:
        config: Sizes, dtype policy, and whether blocks are recomputed in the backward pass.
        seed: Of the random weights T5 starts from; None leaves zeros, for an encoder whose
            weights are all about to be set.

    Example:
        >>> encoder = Encoder(dataclasses.replace(ENCODER_PRESETS["mt5_tiny"], vocabulary_size=1000))
        >>> encoder(tf.constant([[17, 4, 1, 0]])).shape
        TensorShape([1, 4, 128])
    """

    PAD_ID = 0

    def __init__(self, config: EncoderConfig, seed: int | None = 0, **kwargs: Any) -> None:
        super().__init__(dtype=config.dtype, **kwargs)
        self.config = config
        self.relpos_bias = RelativePositionBias(
            config.num_heads, config.relative_buckets, config.relative_max_distance, dtype=config.dtype
        )
        self.blocks = [
            EncoderBlock(config, name=f"layers_{index}", dtype=config.dtype)
            for index in range(config.num_layers)
        ]
        self.encoder_norm = RMSNorm(config.norm_epsilon, dtype=config.dtype)
        self.build((None, None))
        if seed is not None:
            for name, variable in self.canonical_variables().items():
                variable.assign(initial_weight(config, name, seed))

    def build(self, input_shape: Any) -> None:
        """Creates every weight; called by the constructor."""
        config = self.config
        self.embedding = self.add_weight(
            name="embedding",
            shape=(config.vocabulary_size, config.model_dim),
            initializer="zeros",
            autocast=False,
        )
        self.relpos_bias.build()
        hidden_shape = (None, None, config.model_dim)
        for block in self.blocks:
            block.build(hidden_shape)
        self.encoder_norm.build(hidden_shape)
        self.projection = self.add_weight(
            name="projection", shape=(config.model_dim, config.projection_dim), initializer="zeros"
        )
        self.built = True

    def mask(self, ids: tf.Tensor) -> tf.Tensor:
        """Which ids are tokens and not padding, `[batch, length]` bool."""
        return tf.not_equal(ids, self.PAD_ID)

    def call(self, ids: tf.Tensor, training: bool = False, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Encodes.

        Args:
            ids: `[batch, length]` int32, padded with 0.
            training: Whether to apply dropout.
            seed: `[2]` int32 for dropout; equal seeds drop the same activations. Drawn from
                TensorFlow's global generator if not given.

        Returns:
            `[batch, length, projection_dim]` float32, of unit length, zero at pads.
        """
        hidden = self.hidden_states(ids, training, seed)
        vectors = tf.cast(linear(hidden, self.projection), tf.float32)
        vectors = tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-24)
        return tf.where(self.mask(ids)[:, :, tf.newaxis], vectors, 0.0)

    def hidden_states(
        self, ids: tf.Tensor, training: bool = False, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The T5 encoder's output before the projection, `[batch, length, model_dim]`.

        Arguments are those of a call; states of pads mean nothing.
        """
        seeds = self._block_seeds(training, seed)
        hidden = tf.cast(tf.gather(self.embedding.value, ids), self.compute_dtype)
        hidden = dropout(hidden, self.config.dropout, seeds[-1], site=0)
        bias = self.relpos_bias(tf.shape(ids)[1]) + self._pad_bias(ids)
        for block, block_seed in zip(self.blocks, seeds, strict=False):
            hidden = self._run_block(block, hidden, bias, block_seed, training)
        return dropout(self.encoder_norm(hidden), self.config.dropout, seeds[-1], site=1)

    def canonical_variables(self) -> dict[str, keras.Variable]:
        """The variables by canonical name, see `weights.py`."""
        variables = {
            "token_embedder/embedding": self.embedding,
            "encoder/relpos_bias/rel_embedding": self.relpos_bias.rel_embedding,
            "encoder/encoder_norm/scale": self.encoder_norm.scale,
            "projection/kernel": self.projection,
        }
        for index, block in enumerate(self.blocks):
            layer = f"encoder/layers_{index}"
            variables[f"{layer}/pre_attention_layer_norm/scale"] = block.pre_attention_layer_norm.scale
            variables[f"{layer}/pre_mlp_layer_norm/scale"] = block.pre_mlp_layer_norm.scale
            for part in (block.attention, block.mlp):
                for variable in part.variables:
                    variables[f"{layer}/{part.name}/{variable.name}/kernel"] = variable
        return {name: variables[name] for name in weight_shapes(self.config)}

    def get_canonical_weights(self) -> dict[str, np.ndarray]:
        """A copy of every weight by canonical name, float32."""
        return {name: variable.numpy() for name, variable in self.canonical_variables().items()}

    def set_canonical_weights(self, weights: Mapping[str, Any]) -> None:
        """Sets every weight, or none if any does not fit.

        Args:
            weights: Canonical name to an array, or to anything with a `shape` that
                `numpy.asarray` reads; it is read only when its turn comes, so that a large
                checkpoint is never in memory as a whole.

        Raises:
            InputError: Listing every missing, unexpected and wrongly shaped weight.
        """
        check_weights(weight_shapes(self.config), weights)
        for name, variable in self.canonical_variables().items():
            variable.assign(np.asarray(weights[name]).astype(np.float32, copy=False))

    def _run_block(
        self,
        block: EncoderBlock,
        hidden: tf.Tensor,
        bias: tf.Tensor,
        seed: tf.Tensor | None,
        training: bool,
    ) -> tf.Tensor:
        if training and self.config.rematerialize:
            return tf.recompute_grad(lambda hidden, bias: block(hidden, bias, seed))(hidden, bias)
        return block(hidden, bias, seed)

    def _pad_bias(self, ids: tf.Tensor) -> tf.Tensor:
        """`[batch, 1, 1, length]` float32: zero at tokens, far below any logit at pads."""
        return tf.where(self.mask(ids), 0.0, _PAD_LOGIT)[:, tf.newaxis, tf.newaxis, :]

    def _block_seeds(self, training: bool, seed: tf.Tensor | None) -> list[tf.Tensor | None]:
        """One dropout seed a block, and one for what is outside of them."""
        count = self.config.num_layers + 1
        if not training or self.config.dropout == 0:
            return [None] * count
        if seed is None:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        return tf.unstack(tf.random.experimental.stateless_split(seed, count))
