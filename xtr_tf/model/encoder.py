"""The XTR encoder: a T5 encoder, a projection of every token, and L2 normalisation.

Knows ids and vectors. The tokenizer handles text, and `checkpoints` other weight formats.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import encoder_preset
from xtr_tf.model.block import EncoderBlock
from xtr_tf.model.layers import Linear, RelativePositionBias, TokenEmbedder, dropout, split_seed
from xtr_tf.model.weights import check_weights, initial_weight, weight_shapes

# Far below any logit, but finite, so that a row of only pads does not become NaN.
_PAD_LOGIT = -1e9


@keras.saving.register_keras_serializable(package="xtr_tf")
class Encoder(keras.Model):
    """A Keras model that maps token ids to L2-normalised token vectors.

    `encoder(ids)` returns the vectors, and `encoder.mask(ids)` tells which of them are tokens. The vectors of
    pads are exactly zero. No other vector depends on the number of pads or on other rows of the batch. The
    pad id is 0, as in every T5 vocabulary.

    Implements [XTR](https://arxiv.org/abs/2304.01982) on [T5](https://arxiv.org/abs/1910.10683).

    Args:
        config: Sizes, dtype policy, and whether to recompute blocks in the backward pass.
        seed: Seed of the initial weights; None for zeros, if all weights will be set.

    Example:
        >>> encoder = Encoder.from_preset("mt5_tiny", vocabulary_size=1000)
        >>> encoder(tf.constant([[17, 4, 1, 0]])).shape
        TensorShape([1, 4, 128])
    """

    PAD_ID = 0

    def __init__(self, config: EncoderConfig, seed: int | None = 0, **kwargs: Any) -> None:
        super().__init__(dtype=config.dtype, **kwargs)
        self.config = config
        self.seed = seed
        policy = self.dtype_policy
        self.token_embedder = TokenEmbedder(
            config.vocabulary_size,
            config.model_dim,
            config.embedding_dim,
            dtype=policy,
            name="token_embedder",
        )
        self.relpos_bias = RelativePositionBias(
            config.num_heads,
            config.relative_buckets,
            config.relative_max_distance,
            dtype=policy,
            name="relpos_bias",
        )
        self.blocks = [
            EncoderBlock(
                config.num_heads,
                config.head_dim,
                config.feed_forward_dim,
                config.feed_forward,
                config.dropout,
                config.norm_epsilon,
                dtype=policy,
                name=f"layers_{index}",
            )
            for index in range(config.num_layers)
        ]
        self.encoder_norm = keras.layers.RMSNormalization(
            epsilon=config.norm_epsilon, dtype=policy, name="encoder_norm"
        )
        self.projection = Linear(config.projection_dim, dtype=policy, name="projection")
        self.build((None, None))
        if seed is not None:
            for name, variable in self.canonical_variables().items():
                variable.assign(initial_weight(config, name, seed))

    @classmethod
    def from_preset(cls, preset: str, seed: int | None = 0, **changes: Any) -> Encoder:
        """Makes an encoder of a published size with random weights.

        For trained weights, use `load_encoder` (encoders of xtr-tf) or `import_checkpoint` (others).

        Args:
            preset: A name in `ENCODER_PRESETS`, such as `mt5_small`.
            seed: As for the constructor.
            **changes: Fields of `EncoderConfig` that differ from the preset.

        Returns:
            The encoder.

        Example:
            >>> Encoder.from_preset("mt5_small", dropout=0.0).summary()
        """
        return cls(dataclasses.replace(encoder_preset(preset), **changes), seed)

    def build(self, ids_shape: tuple[int | None, ...]) -> None:
        """Creates every weight; called by the constructor."""
        hidden_shape = (*ids_shape, self.config.model_dim)
        self.token_embedder.build(ids_shape)
        self.relpos_bias.build(ids_shape)
        for layer in (*self.blocks, self.encoder_norm, self.projection):
            layer.build(hidden_shape)

    def mask(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns which ids are tokens and not padding.

        Args:
            ids: `[batch, length]` int32, padded with 0.

        Returns:
            `[batch, length]` bool.
        """
        return ops.not_equal(ids, self.PAD_ID)

    def call(self, ids: tf.Tensor, training: bool = False, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Encodes token ids.

        Args:
            ids: `[batch, length]` int32, padded with 0.
            training: Whether to apply dropout.
            seed: `[2]` int32 seed of dropout. Equal seeds drop the same activations. By default drawn from
                TensorFlow's global generator.

        Returns:
            `[batch, length, projection_dim]` float32 vectors of unit length, zero at pads.
        """
        hidden = self.hidden_states(ids, training, seed)
        vectors = ops.cast(self.projection(hidden), "float32")
        # Not `ops.normalize`, whose gradient at a vector of zeros is NaN.
        squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
        vectors = vectors * ops.rsqrt(ops.maximum(squares, 1e-24))
        return ops.where(self.mask(ids)[:, :, None], vectors, 0.0)

    def hidden_states(
        self, ids: tf.Tensor, training: bool = False, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Returns the output of the T5 encoder, before the projection.

        Args:
            ids: `[batch, length]` int32, padded with 0.
            training: Whether to apply dropout.
            seed: `[2]` int32 seed of dropout.

        Returns:
            `[batch, length, model_dim]`; the states of pads are meaningless.
        """
        *block_seeds, outer_seed = self._dropout_seeds(training, seed)
        hidden = dropout(self.token_embedder(ids), self.config.dropout, outer_seed, site=0)
        bias = self.relpos_bias(ids) + self._pad_bias(ids)
        for block, block_seed in zip(self.blocks, block_seeds, strict=True):
            hidden = self._run_block(block, hidden, bias, block_seed, training)
        return dropout(self.encoder_norm(hidden), self.config.dropout, outer_seed, site=1)

    @functools.cached_property
    def inference(self) -> Any:
        """A `tf.function` from `[batch, length]` int32 ids to vectors and mask.

        All code that encodes with this encoder shares it, so that its graph is built once.
        """
        return tf.function(
            lambda ids: (self(ids), self.mask(ids)),
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
            autograph=False,
        )

    def compute_output_shape(self, ids_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """`[batch, length]` to `[batch, length, projection_dim]`."""
        return (*ids_shape, self.config.projection_dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration from which `from_config` makes an equal encoder."""
        return {"name": self.name, "config": dataclasses.asdict(self.config), "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Encoder:
        """Makes an encoder from the result of `get_config`."""
        return cls(**config | {"config": EncoderConfig(**config["config"])})

    def canonical_variables(self) -> dict[str, keras.Variable]:
        """The variables by canonical name (see `weights.py`), the path of attributes to a variable."""
        blocks = {block.name: block for block in self.blocks}
        variables = {}
        for name in weight_shapes(self.config):
            found: Any = self
            for part in name.removeprefix("encoder/").split("/"):
                found = blocks[part] if part in blocks else getattr(found, part)
            variables[name] = found
        return variables

    def get_canonical_weights(self) -> dict[str, np.ndarray]:
        """Returns a float32 copy of every weight, by canonical name."""
        return {name: variable.numpy() for name, variable in self.canonical_variables().items()}

    def set_canonical_weights(self, weights: Mapping[str, Any]) -> None:
        """Sets all weights, or none if any of them does not fit.

        Args:
            weights: Arrays by canonical name, or objects with a `shape` that `numpy.asarray` can read. They
                are read one at a time, so that a large checkpoint is never in memory as a whole.

        Raises:
            InputError: Weights are missing, unexpected or of the wrong shape; the message lists them.
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
            return keras.remat(lambda hidden, bias: block(hidden, bias, seed))(hidden, bias)
        return block(hidden, bias, seed)

    def _pad_bias(self, ids: tf.Tensor) -> tf.Tensor:
        """`[batch, 1, 1, length]` float32: zero at tokens, far below any logit at pads."""
        return ops.where(self.mask(ids), 0.0, _PAD_LOGIT)[:, None, None, :]

    def _dropout_seeds(self, training: bool, seed: tf.Tensor | None) -> list[tf.Tensor | None]:
        """Returns one seed per block, and one for everything else."""
        count = self.config.num_layers + 1
        if not training or self.config.dropout == 0:
            return [None] * count
        if seed is None:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        return split_seed(seed, count)
