"""Settings of the model: the tokenizer, and the shape of the encoder.

Frozen dataclasses that need only the standard library, as in all of `config`. Every field has a default that
works on one CPU. `__post_init__` checks the fields, so that an invalid configuration cannot be made. Named
sizes are in `presets.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from xtr_tf.errors import require

FeedForward = Literal["gated-gelu", "relu"]
Dtype = Literal["float32", "mixed_bfloat16"]


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes ids.

    Attributes:
        model: Path of the SentencePiece `.model` file.
        lowercase: Whether to lower-case text first, as for Google's released XTR.
        query_length: Tokens that queries are padded or truncated to, end-of-sequence included.
        document_length: The same for a document.
    """

    model: str = ""
    lowercase: bool = True
    query_length: int = 32
    document_length: int = 512

    def __post_init__(self) -> None:
        _check_lengths(self)


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """Tokenizer settings of a run.

    A setting that is None comes from the encoder that the run starts from; without one it is the default of
    `TokenizerConfig`.

    Attributes:
        model: Path of the SentencePiece `.model` file. Not needed if the run starts from an encoder.
        lowercase: Whether to lower-case text first; by default as the encoder to start from does, or true.
        query_length: Tokens that queries are padded or truncated to; by default the encoder's, or 32.
        document_length: The same for a document; by default the encoder's, or 512.
    """

    model: str = ""
    lowercase: bool | None = None
    query_length: int | None = None
    document_length: int | None = None

    def __post_init__(self) -> None:
        _check_lengths(self)

    def applied_to(self, base: TokenizerConfig) -> TokenizerConfig:
        """Returns `base` with the settings that are not None."""
        said = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, "")}
        return dataclasses.replace(base, **said)


def _check_lengths(config: TokenizerConfig | TokenizerSettings) -> None:
    for name in ("query_length", "document_length"):
        length = getattr(config, name)
        require(
            length is None or length >= 2,
            f"`tokenizer.{name}` must be at least 2 (one token and its end).",
            length,
        )


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The shape of a T5 encoder and of the projection after it.

    Attributes:
        vocabulary_size: Rows of the embedding, at least the number of SentencePiece pieces.
        model_dim: Width of the residual stream (`d_model`).
        feed_forward_dim: Inner width of the feed-forward layer (`d_ff`).
        num_layers: Number of blocks.
        num_heads: Attention heads.
        head_dim: Width of one head (`d_kv`); `num_heads * head_dim` need not be `model_dim`.
        feed_forward: `gated-gelu` (mT5, T5 1.1) or `relu` (T5 1.0).
        relative_buckets: Buckets of the relative position bias.
        relative_max_distance: Distance beyond which all positions share the last bucket.
        norm_epsilon: Added to the mean square in RMS normalisation.
        dropout: Dropout rate during training.
        projection_dim: Width of a token vector.
        embedding_dim: Width of the embedding table, whose rows a kernel maps to `model_dim`; 0 for a table
            of `model_dim` and no kernel, as in T5.
        dtype: The dtype policy of the encoder when it is loaded: `float32`, or `mixed_bfloat16` for
            accelerators. `training.dtype` sets the policy of training.
        rematerialize: Whether to recompute each block in the backward pass instead of keeping its
            activations.
    """

    vocabulary_size: int = 250_112
    model_dim: int = 512
    feed_forward_dim: int = 1024
    num_layers: int = 8
    num_heads: int = 6
    head_dim: int = 64
    feed_forward: FeedForward = "gated-gelu"
    relative_buckets: int = 32
    relative_max_distance: int = 128
    norm_epsilon: float = 1e-6
    dropout: float = 0.1
    projection_dim: int = 128
    embedding_dim: int = 0
    dtype: Dtype = "float32"
    rematerialize: bool = False

    def __post_init__(self) -> None:
        for name in (
            "vocabulary_size",
            "model_dim",
            "feed_forward_dim",
            "num_layers",
            "num_heads",
            "head_dim",
            "projection_dim",
        ):
            require(getattr(self, name) >= 1, f"`encoder.{name}` must be positive.", getattr(self, name))
        require(
            self.relative_buckets >= 4 and self.relative_buckets % 4 == 0,
            "`encoder.relative_buckets` must be a positive multiple of 4.",
            self.relative_buckets,
        )
        require(
            self.relative_max_distance > self.relative_buckets // 4,
            "`encoder.relative_max_distance` must exceed a quarter of the buckets.",
            self.relative_max_distance,
        )
        require(self.embedding_dim >= 0, "`encoder.embedding_dim` must not be negative.", self.embedding_dim)
        require(0 <= self.dropout < 1, "`encoder.dropout` must be in [0, 1).", self.dropout)
