"""The configuration of a pipeline: what a YAML file may say, section by section, and what is refused.

No TFX and no TensorFlow: a configuration is read, checked and shown without importing either.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from tfx_pipeline.vertex_config import VertexConfig
from xtr_tf.config.loading import from_mapping, load_as, to_mapping
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig, SearchDefaults, StoreText
from xtr_tf.config.training import RunConfig
from xtr_tf.errors import InputError, require
from xtr_tf.evaluation.metrics import JUDGED_METRICS
from xtr_tf.evaluation.mining import MiningSettings
from xtr_tf.model.folder import TOKENIZER_FILE
from xtr_tf.vectors.encode import SHARD_CHARACTERS

_SCHEMAS = Path(__file__).parent / "schemas"

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True)
class GateSettings:
    """Thresholds of `DataGate`.

    Attributes:
        training_drift: By how much the share of one language among training queries may differ from
            the last data that passed, such as 0.1 for ten percentage points.
        corpus_drift: The same for documents of the corpus.
        min_examples_per_language: A language of the schema that has fewer in a split has vanished.
        max_missing_positives: Which share of a split's judgements may name documents that are not in the
            corpus (any more). Up to it they are reported, and the evaluation leaves them out.
    """

    training_drift: float = 0.1
    corpus_drift: float = 0.1
    min_examples_per_language: int = 1
    max_missing_positives: float = 0.1

    RENAMED: ClassVar[Mapping[str, str]] = {"fewest_examples": "min_examples_per_language"}

    def __post_init__(self) -> None:
        for name in ("training_drift", "corpus_drift"):
            require(0 < getattr(self, name) <= 1, f"`{name}` must be in (0, 1].", getattr(self, name))
        share = self.max_missing_positives
        require(0 <= share <= 1, "`max_missing_positives` must be in [0, 1].", share)
        least = self.min_examples_per_language
        require(least >= 1, "`min_examples_per_language` must be at least 1.", least)


@dataclasses.dataclass(frozen=True)
class QualitySettings:
    """Thresholds of `RetrievalEvaluator`, and how it measures.

    Figures are in [0, 1]. The average is over languages, each counting the same.

    Attributes:
        metric: What the thresholds are about, one of `xtr_tf.evaluation.metrics.JUDGED_METRICS`.
        min_average: The average must reach this.
        min_per_language: Every language must reach this.
        max_average_drop: By how much the average may be below the latest blessed model's, on the documents
            that both have. A fall counts only if chance does not explain it: if the whole 95% interval of
            the paired bootstrap over queries lies below zero.
        max_language_drop: The same for any one language.
        k_prime: Tokens that each query token retrieves; 0 leaves it to the model, as production does.
        max_queries: Queries measured; 0 means all.
        exact_queries: Queries that are also searched exactly, to show what the index costs.
        bm25: Whether BM25 is measured as well.
        bm25_documents: Most documents of a corpus that BM25 is measured on: it indexes all of them in memory,
            twice. A larger corpus is measured without it, and the reasons of the blessing say so. Of its
            documents only ids are held in memory.
    """

    metric: str = "nDCG@10"
    min_average: float = 0.0
    min_per_language: float = 0.0
    max_average_drop: float = 0.01
    max_language_drop: float = 0.05
    k_prime: int = 0
    max_queries: int = 0
    exact_queries: int = 100
    bm25: bool = True
    bm25_documents: int = 500_000

    RENAMED: ClassVar[Mapping[str, str]] = {
        "least_average": "min_average",
        "least_language": "min_per_language",
        "average_fall": "max_average_drop",
        "language_fall": "max_language_drop",
    }

    def __post_init__(self) -> None:
        known = ", ".join(JUDGED_METRICS)
        require(self.metric in JUDGED_METRICS, f"`metric` must be one of {known}.", self.metric)
        for name in ("min_average", "min_per_language", "max_average_drop", "max_language_drop"):
            require(0 <= getattr(self, name) <= 1, f"`{name}` must be in [0, 1].", getattr(self, name))
        for name in ("k_prime", "max_queries", "exact_queries", "bm25_documents"):
            require(getattr(self, name) >= 0, f"`{name}` must not be negative.", getattr(self, name))


@dataclasses.dataclass(frozen=True)
class ServingCheckSettings:
    """Bounds of `ServingValidator`.

    Attributes:
        latency_ms: What a single query may take, at the quantile below.
        latency_quantile: Such as 0.95: that many of the queries must be within it.
        rounds: How often every warm-up query is asked while latency is measured.
        load_timeout_seconds: Within which the server must have loaded the model.
    """

    latency_ms: float = 500.0
    latency_quantile: float = 0.95
    rounds: int = 10
    load_timeout_seconds: float = 600.0

    RENAMED: ClassVar[Mapping[str, str]] = {
        "latency_share": "latency_quantile",
        "start_seconds": "load_timeout_seconds",
    }

    def __post_init__(self) -> None:
        for name in ("latency_ms", "load_timeout_seconds"):
            require(getattr(self, name) > 0, f"`{name}` must be positive.", getattr(self, name))
        require(
            0 < self.latency_quantile <= 1, "`latency_quantile` must be in (0, 1].", self.latency_quantile
        )
        require(self.rounds >= 1, "`rounds` must be at least 1.", self.rounds)


@dataclasses.dataclass(frozen=True)
class TrainingDataConfig:
    """Where judged queries come from.

    Attributes:
        folder: The input's folder, local or such as `gs://bucket/data`.
        train: Pattern of the files trained on, relative to the folder: JSONL or TSV, or
            `qrels/train.tsv` of a BEIR folder; `{SPAN}` and `{VERSION}` take the latest.
        eval: The same for the queries that models are judged by.
        format: `text`, or `tfrecord` for examples that an earlier pipeline wrote.
        schema: Folder of the curated schema; empty takes the one in this package, or that below
            the pipeline's root if the root is remote.
    """

    folder: str = ""
    train: str = "qrels/train.tsv"
    eval: str = "qrels/dev.tsv"
    format: Literal["text", "tfrecord"] = "text"
    schema: str = ""


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """Where documents come from, and how they become vectors.

    Attributes:
        folder: The input's folder, local or such as `gs://bucket/data`.
        files: Pattern of the files, relative to the folder; `{SPAN}` and `{VERSION}` take the latest.
        format: `text` (JSONL, TSV, Parquet), or `tfrecord`.
        schema: As of the training data.
        shard_characters: Text of a shard, the unit of work and of resuming.
        encoding: How documents are cut, stored and pruned.
    """

    folder: str = ""
    files: str = "corpus.jsonl"
    format: Literal["text", "tfrecord"] = "text"
    schema: str = ""
    shard_characters: int = SHARD_CHARACTERS
    encoding: EncodingConfig = dataclasses.field(default_factory=EncodingConfig)

    def __post_init__(self) -> None:
        require(
            self.shard_characters >= 1, "`corpus.shard_characters` must be positive.", self.shard_characters
        )


@dataclasses.dataclass(frozen=True)
class PartitionedIndexConfig(IndexConfig):
    """How vectors are kept and searched, and how many of them one model holds.

    Attributes:
        tokens_per_partition: Most tokens of one model, about; a corpus with more becomes a collection of
            models that hold about the same number each and answer as one. See `docs/how-to/partitions.md`
            for the memory that a token takes.
    """

    tokens_per_partition: int = 150_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.tokens_per_partition
        require(given >= 1, "`index.tokens_per_partition` must be positive.", given)

    @property
    def of_index(self) -> IndexConfig:
        """What the index itself is made by, which does not depend on how it is exported."""
        return IndexConfig(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(IndexConfig)}
        )


@dataclasses.dataclass(frozen=True)
class MiningConfig(MiningSettings):
    """Hard negatives that are found before training.

    Attributes:
        ranker: Who ranks: `none` for no mining, BM25 over `words` or `ngrams`, or `latest`, the latest
            blessed model (BM25 over n-grams before there is one). All documents are held in memory.
    """

    ranker: Literal["none", "words", "ngrams", "latest"] = "none"


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """The whole configuration of a pipeline, as one YAML file holds it.

    Attributes:
        name: Of the pipeline; the full and the refresh DAG share it, and with it metadata and cache.
        root: Folder of artifacts, metadata and logs, local or such as `gs://bucket/pipeline`.
        push_directory: Folder that versions are pushed to, a model's base directory for servers;
            empty takes `serving` below the root.
        model_name: What requests call the model.
        warm_start: What training starts from: `configured` (`run.training.initial_encoder`, or
            random weights without it), or `latest`, the latest blessed model where there is one.
        beam_args: Options of Beam as on a command line. With a runner among them, such as
            `--runner=DataflowRunner`, its workers encode the corpus, too, and index it where they see the
            pipeline's root as this machine does.
        training_data: Judged queries.
        corpus: Documents.
        mining: Hard negatives found before training, for `run.data.hard_negatives`; none by default.
        run: Tokenizer, encoder, loss and training, as for `xtr-tf train`; where the data come from
            is not its business here.
        index: How vectors are kept and searched, and how many one model holds.
        search: Parameters of requests that name none.
        choose_alpha: Whether `search.alpha` is chosen on a third of the split `eval`, by which the model is
            not judged then; needs `index.lexical`.
        store_text: What the model returns of texts: `none`, `snippet` (where the query matched) or `full`.
        gate: What the data gate tolerates.
        quality: What a model must reach to be blessed.
        serving_check: What it must do under a server.
        vertex: Where and on what it runs in Vertex AI; a local run ignores it.
    """

    name: str = "xtr"
    root: str = "out/pipeline"
    push_directory: str = ""
    model_name: str = "default"
    warm_start: Literal["configured", "latest"] = "configured"
    beam_args: tuple[str, ...] = ("--direct_num_workers=1", "--direct_running_mode=in_memory")
    training_data: TrainingDataConfig = dataclasses.field(default_factory=TrainingDataConfig)
    corpus: CorpusConfig = dataclasses.field(default_factory=CorpusConfig)
    mining: MiningConfig = dataclasses.field(default_factory=MiningConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    index: PartitionedIndexConfig = dataclasses.field(default_factory=PartitionedIndexConfig)
    search: SearchDefaults = dataclasses.field(default_factory=SearchDefaults)
    choose_alpha: bool = False
    store_text: StoreText = "full"
    gate: GateSettings = dataclasses.field(default_factory=GateSettings)
    quality: QualitySettings = dataclasses.field(default_factory=QualitySettings)
    serving_check: ServingCheckSettings = dataclasses.field(default_factory=ServingCheckSettings)
    vertex: VertexConfig = dataclasses.field(default_factory=VertexConfig)

    RENAMED: ClassVar[Mapping[str, str]] = {"serving": "push_directory"}

    def __post_init__(self) -> None:
        require(bool(self.name), "`name` must not be empty.", self.name)
        require(bool(self.root), "`root` must name a folder.", self.root)
        require(
            self.index.lexical != "none" or not (self.choose_alpha or self.search.alpha),
            "`choose_alpha` and `search.alpha` need BM25: set `index.lexical` to words or ngrams.",
            self.index.lexical,
        )
        require(
            self.mining.ranker == "none" or self.run.data.hard_negatives > 0,
            "What `mining` finds is trained on if `run.data.hard_negatives` is above 0: set both.",
            self.run.data.hard_negatives,
        )
        require(
            not self.run.data.train and not self.run.data.dev,
            "A pipeline's data are set by `training_data` and `corpus`; leave out `run.data.train` and "
            "`run.data.dev`.",
            [source.path for source in (*self.run.data.train, *self.run.data.dev)],
        )

    @property
    def serving_folder(self) -> str:
        """Where versions are pushed."""
        return absolute(self.push_directory or posixpath.join(self.root, "serving"))

    @property
    def work_folder(self) -> str:
        """Where unfinished work lies, so that a run that was killed goes on."""
        return absolute(posixpath.join(self.root, "work"))

    @property
    def vocabulary(self) -> str:
        """The SentencePiece file: the configured one, or that of the encoder training starts from."""
        initial = self.run.training.initial_encoder
        model = self.run.tokenizer.model or (posixpath.join(initial, TOKENIZER_FILE) if initial else "")
        return absolute(model) if model else ""

    def schema_folder(self, kind: Literal["training", "corpus"]) -> str:
        """The folder of a curated schema."""
        given = self.training_data.schema if kind == "training" else self.corpus.schema
        if given:
            return absolute(given)
        return posixpath.join(self.root, "schemas", kind) if is_remote(self.root) else str(_SCHEMAS / kind)


def load_pipeline_config(path: str | Path | None, overrides: Sequence[str] = ()) -> PipelineConfig:
    """Reads a pipeline's configuration from a YAML file and `key=value` overrides.

    Args:
        path: Of the file; the defaults if None.
        overrides: Such as `run.training.steps=20`.

    Returns:
        The configuration.

    Raises:
        InputError: The file, a key or a value cannot be used.

    Example:
        >>> config = load_pipeline_config("examples/configs/atlas_pipeline.yaml", ["run.training.steps=20"])
    """
    return load_as(PipelineConfig, path, overrides)


def settings_to_json(settings: Any) -> str:
    """A section as a component's execution property holds it; equal ones are equal text, for caching."""
    return json.dumps(to_mapping(settings), sort_keys=True)


def settings_from_json(section: type[Settings], text: str | None) -> Settings:
    """The inverse of `settings_to_json`.

    Args:
        section: The settings class.
        text: JSON; empty or None gives the defaults.

    Returns:
        The settings.

    Raises:
        InputError: The text is not such an object, or has unknown keys.
    """
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise InputError(
            f"Settings of a component are a JSON object ({error}). Received: {text!r}."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"Settings of a component are a JSON object. Received: {text!r}.")
    return from_mapping(section, content)


def is_remote(path: str) -> bool:
    """Whether a path is another file system's, such as `gs://bucket/folder`."""
    return "://" in path


def absolute(path: str) -> str:
    """A local path made absolute; a remote one as it is."""
    return path if is_remote(path) else str(Path(path).resolve())
