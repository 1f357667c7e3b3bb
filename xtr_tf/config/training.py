"""A training run's settings: loss, data, how training goes, and `RunConfig`, which one YAML file holds.

A preset (`presets.py`) is a set of differences from these, a YAML file a set of differences from a preset
(`loading.py`). What happens after training is configured in `retrieval.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from xtr_tf.config.model import EncoderConfig, TokenizerSettings
from xtr_tf.errors import require


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """What training minimises.

    Attributes:
        score: `xtr` (in-batch token retrieval) or `colbert` (mean of MaxSim), see
            `training/losses/scores.py`.
        k_train: Document tokens of the global batch that each query token retrieves.
        imputation: What a query token counts with for a document of which it retrieved nothing. `none` is
            the paper's f_XTR: it does not count, and a score is a mean over the tokens that retrieved.
            `threshold` is f_XTR', which search ranks by: the least similarity that it retrieved, and a
            mean over all query tokens. Such scores lie close together; lower the temperature.
        temperature: Divides scores before the softmax.
        distillation_weight: Weight of the divergence from the data's teacher scores; 0 leaves it out.
        teacher_vector_weight: Weight of the mean distance (1 - cosine) of taught tokens from the vectors of
            `data.teacher_vectors`.
        top_k_recall: Below 1, a TPU finds the k-th similarity with its approximate top-k at
            this recall. Other devices are always exact.
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
        path: A file or folder; a pattern with `*` for several files of one set.
        format: How it is laid out; `auto` looks at the path. `tokenized` examples are the TFX pipeline's.
            `cloze` takes a corpus without questions: a sentence asks for the passage that it was cut out of.
        split: Which queries of a BEIR, MS MARCO or MIRACL folder.
        language: Language of examples that do not name one.
        teacher_scores: File with a teacher's scores, `query id`, `document id` and `score` between tabs, for
            sets whose own files have none.
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
    """What is trained on and what development metrics are measured on.

    Attributes:
        train: Training sets, mixed by language.
        dev: What is searched during training: folders with a corpus and judgements, or files as for `train`,
            whose documents are then the corpus.
        hard_negatives: Hard negatives given with each query; those a query lacks are left out.
        language_temperature: Languages are drawn with probability proportional to their number of
            examples to the power 1 / temperature: 1 keeps the data's proportions, larger evens them out.
        max_bad_records: Records that may be skipped before reading stops; below 1, the share of all records.
        teacher_vectors: Stores of a teacher's token vectors (`training/data/teacher_vectors.py` has the
            format): in every update the tokens of some of their texts are drawn to them. Without training
            sets this is all that is trained.
        teacher_texts: Texts of these stores per update, over all devices.
    """

    train: tuple[SourceConfig, ...] = ()
    dev: tuple[SourceConfig, ...] = ()
    hard_negatives: int = 0
    language_temperature: float = 1.0
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
        tpu: Name of the TPU to connect to, or `local` for that of this machine; the environment's TPU_NAME,
            where it is set, takes the place of `local`.
        dtype: What training computes in, such as `mixed_bfloat16` on accelerators; empty for `encoder.dtype`,
            which the trained encoder computes in when it is loaded.
        steps_per_loop: Updates made on the devices between two returns to Python.
        jit_compile: Whether XLA compiles the step (always so on TPU).
        optimizer: `adafactor`, or `adamw`.
        learning_rate: After the warm-up.
        schedule: `constant`, or `inverse_sqrt` (falling with the root of the step).
        warmup_steps: Steps over which the learning rate rises linearly from 0.
        decay_steps: Last steps of the run, over which it falls linearly to 0, whatever the schedule.
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
