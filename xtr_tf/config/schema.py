"""What a run can be configured with: frozen dataclasses, and nothing but the standard library.

Every field has a default that works on one CPU; a preset (`presets.py`) is a set of
differences from these, a YAML file a set of differences from a preset (`loading.py`).
Checks that need one field alone live in `__post_init__`, so that an impossible
configuration cannot be made. Where a key got a new name, `RENAMED` maps the old one to it, and
the loader says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from xtr_tf.errors import InputError

FeedForward = Literal["gated-gelu", "relu"]
Dtype = Literal["float32", "mixed_bfloat16"]


def require(condition: bool, message: str, received: Any) -> None:
    """Raises `InputError` with the house form of a message unless `condition` holds."""
    if not condition:
        raise InputError(f"{message} Received: {received!r}.")


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes ids.

    Attributes:
        model: Path of the SentencePiece `.model` file.
        lowercase: Whether text is lower-cased first, as for Google's released XTR.
        query_length: Tokens a query is padded or cut to, end-of-sequence included.
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
    """What a run says about its tokenizer.

    What it leaves open is that of the encoder it starts from, and without one the default of
    `TokenizerConfig`.

    Attributes:
        model: Path of the SentencePiece `.model` file; an encoder that a run starts from has its own.
        lowercase: As in `TokenizerConfig`, or None.
        query_length: Likewise.
        document_length: Likewise.
    """

    model: str = ""
    lowercase: bool | None = None
    query_length: int | None = None
    document_length: int | None = None

    def __post_init__(self) -> None:
        _check_lengths(self)

    def applied_to(self, base: TokenizerConfig) -> TokenizerConfig:
        """`base` with everything that is said here."""
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
        vocabulary_size: Rows of the embedding, at least the SentencePiece model's pieces.
        model_dim: Width of the residual stream (`d_model`).
        feed_forward_dim: Inner width of the feed-forward layer (`d_ff`).
        num_layers: Number of blocks.
        num_heads: Attention heads.
        head_dim: Width of one head (`d_kv`); `num_heads * head_dim` need not be `model_dim`.
        feed_forward: `gated-gelu` (mT5, T5 1.1) or `relu` (T5 1.0).
        relative_buckets: Buckets of the relative position bias.
        relative_max_distance: Distance from which all positions share the last bucket.
        norm_epsilon: Added to the mean square in RMS normalisation.
        dropout: Rate while training.
        projection_dim: Width of a token vector.
        dtype: `float32`, or `mixed_bfloat16` for accelerators.
        rematerialize: Recompute each block in the backward pass instead of keeping its activations.
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
        require(0 <= self.dropout < 1, "`encoder.dropout` must be in [0, 1).", self.dropout)


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """What training minimises.

    Attributes:
        score: `xtr` (in-batch token retrieval) or `colbert` (sum of maxima), see `xtr_tf.losses`.
        k_train: Document tokens of the global batch that each query token retrieves.
        temperature: Divides scores before the softmax.
        distillation_weight: Weight of the divergence from the data's teacher scores; 0 leaves it out.
        top_k_recall: Below 1, a TPU finds the k-th similarity with its approximate top-k at
            this recall. Other devices are always exact.
    """

    score: Literal["xtr", "colbert"] = "xtr"
    k_train: int = 128
    temperature: float = 1.0
    distillation_weight: float = 0.0
    top_k_recall: float = 1.0

    def __post_init__(self) -> None:
        require(self.k_train >= 1, "`loss.k_train` must be positive.", self.k_train)
        require(self.temperature > 0, "`loss.temperature` must be positive.", self.temperature)
        require(
            self.distillation_weight >= 0,
            "`loss.distillation_weight` must not be negative.",
            self.distillation_weight,
        )
        require(0 < self.top_k_recall <= 1, "`loss.top_k_recall` must be in (0, 1].", self.top_k_recall)


@dataclasses.dataclass(frozen=True)
class SourceConfig:
    """One set of training or development examples.

    Attributes:
        path: A file or folder; a pattern with `*` for several files of one set.
        format: How it is laid out; `auto` looks at the path. `tokenized` examples are the TFX pipeline's.
        split: Which queries of a BEIR, MS MARCO or MIRACL folder.
        language: Language of examples that do not name one.
    """

    path: str = ""
    format: Literal["auto", "jsonl", "tsv", "tfrecord", "tokenized", "beir", "ms_marco", "miracl"] = "auto"
    split: str = "train"
    language: str = "und"


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """What is trained on and what development metrics are measured on.

    Attributes:
        train: Training sets, mixed by language.
        dev: Folders with a corpus and judgements, searched during training.
        hard_negatives: Hard negatives given with each query; those a query lacks are left out.
        language_temperature: Languages are drawn with probability proportional to their number of
            examples to the power 1 / temperature: 1 keeps the data's proportions, larger evens them out.
        max_bad_records: Records that may be skipped before reading stops.
    """

    train: tuple[SourceConfig, ...] = ()
    dev: tuple[SourceConfig, ...] = ()
    hard_negatives: int = 0
    language_temperature: float = 1.0
    max_bad_records: int = 100

    def __post_init__(self) -> None:
        for name in ("hard_negatives", "max_bad_records"):
            require(getattr(self, name) >= 0, f"`data.{name}` must not be negative.", getattr(self, name))
        require(
            self.language_temperature >= 1,
            "`data.language_temperature` must be at least 1.",
            self.language_temperature,
        )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How training runs.

    Attributes:
        output: Folder for checkpoints, logs and, at the end, the trained encoder.
        initial_encoder: Encoder folder to start from (imported T5 or mT5, or an earlier XTR);
            empty starts from random weights.
        seed: Fixes the weights' initial values, the order of the data and dropout.
        steps: Updates of the weights.
        batch_size: Queries per update, over all devices.
        gradient_cache_chunk: Queries (with their documents) encoded at a time by each device,
            with the gradient of the whole batch; 0 encodes the batch at once.
        distribution: The devices to train on; `auto` takes the best there are.
        tpu: Name of the TPU to connect to, or `local` on a TPU machine.
        steps_per_loop: Updates made on the devices between two returns to Python.
        jit_compile: Whether XLA compiles the step (always so on TPU).
        optimizer: `adafactor`, or `adamw`.
        learning_rate: After the warm-up.
        schedule: `constant`, or `inverse_sqrt` (falling with the root of the step).
        warmup_steps: Steps over which the learning rate rises linearly from 0.
        weight_decay: Of AdamW.
        gradient_clip: Largest global norm of the gradient; 0 leaves it as it is.
        checkpoint_every: Steps between checkpoints.
        keep_checkpoints: Latest checkpoints kept, besides the best.
        evaluate_every: Steps between searches of the development sets.
        dev_metric: The metric, averaged over development sets, that decides the best checkpoint.
        dev_k_prime: Tokens each query token retrieves in these searches.
        log_every: Steps between points of the TensorBoard curves.
    """

    output: str = "out/training"
    initial_encoder: str = ""
    seed: int = 0
    steps: int = 50_000
    batch_size: int = 32
    gradient_cache_chunk: int = 0
    distribution: Literal["auto", "tpu", "multi_worker", "mirrored", "single"] = "auto"
    tpu: str = "local"
    steps_per_loop: int = 1
    jit_compile: bool = False
    optimizer: Literal["adafactor", "adamw"] = "adafactor"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt"] = "constant"
    warmup_steps: int = 1_000
    weight_decay: float = 0.0
    gradient_clip: float = 0.0
    checkpoint_every: int = 1_000
    keep_checkpoints: int = 2
    evaluate_every: int = 1_000
    dev_metric: Literal["MRR@10", "nDCG@10"] = "nDCG@10"
    dev_k_prime: int = 1_000
    log_every: int = 50

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "batch_size",
            "steps_per_loop",
            "checkpoint_every",
            "keep_checkpoints",
            "evaluate_every",
            "dev_k_prime",
            "log_every",
        ):
            require(getattr(self, name) >= 1, f"`training.{name}` must be positive.", getattr(self, name))
        for name in ("gradient_cache_chunk", "warmup_steps", "weight_decay", "gradient_clip"):
            require(getattr(self, name) >= 0, f"`training.{name}` must not be negative.", getattr(self, name))
        require(self.learning_rate > 0, "`training.learning_rate` must be positive.", self.learning_rate)


@dataclasses.dataclass(frozen=True)
class IndexConfig:
    """How token vectors are kept and searched.

    Attributes:
        kind: `scann` (fastest, smallest), `core` (stock TensorFlow ops, runs in any TF runtime)
            or `exact` (brute force).
        num_leaves: k-means leaves of `scann` and `core`; 0 takes 4 times the root of the tokens.
        num_leaves_to_search: Leaves that a search looks into; 0 lets it follow from their number and k'.
        sample_size: Tokens that leaves and codebooks are trained on; 0 takes 64 per leaf.
        kmeans_iterations: How often k-means assigns the sample and moves the centres.
        seed: Of the sample and of k-means.
        dims_per_block: Dimensions that share one 4-bit code (`scann`).
        anisotropic_threshold: Similarity from which precision matters when codes are chosen
            (`scann`); 0 makes a plain product quantiser.
        reordering: Whether hits are scored again by int8 vectors (`scann`); costs `dim` bytes per token.
        dtype: What `core` (`int8`, `bfloat16`) and `exact` (`float32`, `float16`, `bfloat16`) keep
            vectors as; empty takes `int8` and `float16`.
        num_shards: Searchers that the tokens are divided over in one model, merged exactly.
        parallel_searches: Parts of a large batch that one `scann` index searches at the same time.
    """

    kind: Literal["scann", "core", "exact"] = "scann"
    num_leaves: int = 0
    num_leaves_to_search: int = 0
    sample_size: int = 0
    kmeans_iterations: int = 10
    seed: int = 0
    dims_per_block: int = 2
    anisotropic_threshold: float = 0.2
    reordering: bool = False
    dtype: Literal["", "int8", "bfloat16", "float16", "float32"] = ""
    num_shards: int = 1
    parallel_searches: int = 2

    RENAMED: ClassVar[Mapping[str, str]] = {
        "cells": "num_leaves",
        "leaves": "num_leaves_to_search",
        "training_rounds": "kmeans_iterations",
    }

    def __post_init__(self) -> None:
        for name in ("num_leaves", "num_leaves_to_search", "sample_size"):
            value = getattr(self, name)
            require(value >= 0, f"`index.{name}` must be 0 (automatic) or more.", value)
        for name in ("kmeans_iterations", "dims_per_block", "num_shards", "parallel_searches"):
            require(getattr(self, name) >= 1, f"`index.{name}` must be positive.", getattr(self, name))
        require(
            0 <= self.anisotropic_threshold < 1,
            "`index.anisotropic_threshold` must be in [0, 1).",
            self.anisotropic_threshold,
        )
        allowed = {
            "scann": ("",),
            "core": ("", "int8", "bfloat16"),
            "exact": ("", "float32", "float16", "bfloat16"),
        }
        require(
            self.dtype in allowed[self.kind],
            f"`index.dtype` of a {self.kind} index must be one of {allowed[self.kind]}.",
            self.dtype,
        )


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The whole configuration of a run, as one YAML file holds it.

    Attributes:
        tokenizer: How text becomes ids, as far as the run says.
        encoder: The shape of the encoder.
        loss: What training minimises.
        data: What is trained on.
        training: How training runs.
    """

    tokenizer: TokenizerSettings = dataclasses.field(default_factory=TokenizerSettings)
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    loss: LossConfig = dataclasses.field(default_factory=LossConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
