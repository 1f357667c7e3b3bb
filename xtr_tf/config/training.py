"""Settings of a training run: loss, data, training, and `RunConfig`, which a YAML file describes.

A preset (`presets.py`) changes some of these defaults, and a YAML file changes some values of a preset
(`loading.py`). Everything after training is configured in `retrieval.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from xtr_tf.config.model import EncoderConfig, TokenizerSettings
from xtr_tf.errors import require


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """Settings of the loss.

    Attributes:
        score: `xtr` (in-batch token retrieval) or `colbert` (mean of MaxSim), see
            `training/losses/scores.py`.
        k_train: Document tokens of the global batch that each query token retrieves.
        imputation: Score of a query token for a document of which it retrieved nothing. With `none`, as in
            f_XTR of the paper, the token does not count, and the score is a mean over the tokens that
            retrieved something. With `threshold`, as in f_XTR', by which search ranks, it is the lowest
            similarity that the token retrieved, and the score is a mean over all query tokens. Such scores
            are close together; use a lower temperature.
        temperature: Scores are divided by this before the softmax.
        distillation_weight: Weight of the divergence from the teacher scores in the data; 0 for none.
        teacher_vector_weight: Weight of the mean distance (1 - cosine) of taught tokens from the vectors of
            `data.teacher_vectors`.
        top_k_recall: Below 1, TPUs find the k-th similarity by their approximate top-k with this recall.
            Other devices are always exact.
    """

    score: Literal["xtr", "colbert"] = "xtr"
    k_train: int = 128
    imputation: Literal["none", "threshold"] = "none"
    temperature: float = 1.0
    distillation_weight: float = 0.0
    teacher_vector_weight: float = 1.0
    top_k_recall: float = 1.0

    def __post_init__(self) -> None:
        require(self.k_train >= 1, "`loss.k_train` must be positive.", self.k_train)
        require(self.temperature > 0, "`loss.temperature` must be positive.", self.temperature)
        for name in ("distillation_weight", "teacher_vector_weight"):
            require(getattr(self, name) >= 0, f"`loss.{name}` must not be negative.", getattr(self, name))
        require(0 < self.top_k_recall <= 1, "`loss.top_k_recall` must be in (0, 1].", self.top_k_recall)


@dataclasses.dataclass(frozen=True)
class SourceConfig:
    """One set of training or development examples.

    Attributes:
        path: A file or folder, or a pattern with `*` for several files of one set.
        format: Format of the set; `auto` derives it from the path. `tokenized` examples come from the TFX
            pipeline. `cloze` takes a corpus without questions: each query is a sentence cut out of its
            passage.
        split: Split of the queries in a BEIR, MS MARCO or MIRACL folder.
        language: Language of examples that do not name one.
        teacher_scores: File with the scores of a teacher, for sets without their own: `query id`,
            `document id` and `score`, separated by tabs.
    """

    path: str = ""
    format: Literal[
        "auto", "jsonl", "tsv", "tfrecord", "tokenized", "beir", "ms_marco", "miracl", "cloze"
    ] = "auto"
    split: str = "train"
    language: str = "und"
    teacher_scores: str = ""


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The training and development sets.

    Attributes:
        train: Training sets, mixed by language.
        dev: Development sets to search during training: folders with a corpus and judgements, or files as
            for `train`, whose documents are then the corpus.
        hard_negatives: Hard negatives per query; queries with fewer use those they have.
        language_temperature: Languages are drawn with probability proportional to their number of
            examples to the power 1 / temperature. 1 keeps the proportions of the data; larger values even
            them out.
        one_language_per_batch: Whether all examples of a batch have the same language, so that a query cannot
            tell its document from the others just by the language.
        max_bad_records: Number of records that may be skipped before reading stops; below 1, the share of
            all records.
        teacher_vectors: Stores of a teacher's token vectors (`training/data/teacher_vectors.py` describes the
            format). Every update pulls the tokens of some of their texts towards these vectors. Without
            training sets, this is the only loss.
        teacher_texts: Texts from these stores per update, over all devices.
    """

    train: tuple[SourceConfig, ...] = ()
    dev: tuple[SourceConfig, ...] = ()
    hard_negatives: int = 0
    language_temperature: float = 1.0
    one_language_per_batch: bool = False
    max_bad_records: float = 100.0
    teacher_vectors: tuple[str, ...] = ()
    teacher_texts: int = 64

    def __post_init__(self) -> None:
        for name in ("hard_negatives", "max_bad_records"):
            require(getattr(self, name) >= 0, f"`data.{name}` must not be negative.", getattr(self, name))
        require(
            self.language_temperature >= 1,
            "`data.language_temperature` must be at least 1.",
            self.language_temperature,
        )
        require(self.teacher_texts >= 1, "`data.teacher_texts` must be positive.", self.teacher_texts)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Settings of training.

    Attributes:
        output: Folder for checkpoints, logs and the trained encoder.
        initial_encoder: Encoder folder to start from (imported T5 or mT5, or an earlier XTR);
            empty starts from random weights.
        seed: Seed of the initial weights, the data order and dropout.
        steps: Updates of the weights.
        batch_size: Queries per update, over all devices.
        gradient_cache_chunk: Queries (with their documents) that each device encodes at a time, with the
            gradient of the whole batch; 0 encodes the batch at once.
        distribution: The devices to train on; `auto` uses the best ones available.
        tpu: Name of the TPU to connect to, or `local` for the one in this machine. If the environment
            variable TPU_NAME is set, it replaces `local`.
        dtype: The dtype policy of training, such as `mixed_bfloat16` on accelerators; empty for
            `encoder.dtype`, which the trained encoder uses when it is loaded.
        steps_per_loop: Updates that the devices make before they return to Python.
        jit_compile: Whether to compile the step with XLA (always on TPU).
        optimizer: `adafactor` or `adamw`.
        learning_rate: Learning rate after the warm-up.
        schedule: `constant`, or `inverse_sqrt` (proportional to 1 over the square root of the step).
        warmup_steps: Steps over which the learning rate rises linearly from 0.
        decay_steps: Steps at the end of the run over which the learning rate falls linearly to 0, with any
            schedule.
        weight_decay: Weight decay of AdamW.
        gradient_clip: Largest global norm of the gradient; 0 does not clip.
        checkpoint_every: Steps between checkpoints.
        keep_checkpoints: Number of latest checkpoints to keep, in addition to the best.
        evaluate_every: Steps between evaluations on the development sets.
        dev_metric: The metric, averaged over development sets, that selects the best checkpoint.
        dev_k_prime: Document tokens that each query token retrieves in these evaluations.
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
    dtype: Literal["", "float32", "mixed_bfloat16"] = ""
    steps_per_loop: int = 1
    jit_compile: bool = False
    optimizer: Literal["adafactor", "adamw"] = "adafactor"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt"] = "constant"
    warmup_steps: int = 1_000
    decay_steps: int = 0
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
        for name in ("gradient_cache_chunk", "warmup_steps", "decay_steps", "weight_decay", "gradient_clip"):
            require(getattr(self, name) >= 0, f"`training.{name}` must not be negative.", getattr(self, name))
        require(self.learning_rate > 0, "`training.learning_rate` must be positive.", self.learning_rate)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The configuration of a training run, as in its YAML file.

    Attributes:
        tokenizer: Settings of the tokenizer.
        encoder: Shape of the encoder.
        loss: Settings of the loss.
        data: Training and development sets.
        training: Settings of training.
    """

    tokenizer: TokenizerSettings = dataclasses.field(default_factory=TokenizerSettings)
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    loss: LossConfig = dataclasses.field(default_factory=LossConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
