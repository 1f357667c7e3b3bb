"""The configuration of a pipeline: the sections and keys of its YAML file, and their validation.

Imports neither TFX nor TensorFlow, so that a configuration can be read, checked and shown without them.
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
        training_drift: Maximum change in the share of a language among training queries, compared with the
            last data that passed, such as 0.1 for ten percentage points.
        corpus_drift: Maximum change in the share of a language among the documents of the corpus.
        min_examples_per_language: Minimum number of examples per language of the schema and split. A language
            with fewer has vanished.
        max_missing_positives: Maximum share of a split's judgements that may name documents that are not, or
            no longer, in the corpus. Up to this share they are reported, and the evaluation leaves them out.
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

    Figures are in [0, 1]. The average is over languages, all with the same weight.

    Attributes:
        metric: Metric of the thresholds, one of `xtr_tf.evaluation.metrics.JUDGED_METRICS`.
        min_average: Minimum of the average.
        min_per_language: Minimum for every language.
        max_average_drop: Maximum drop of the average compared with the latest blessed model, on the documents
            that both have. Only a significant drop counts: the whole 95% interval of the paired bootstrap
            over queries must lie below zero.
        max_language_drop: Maximum drop of a single language, by the same comparison.
        k_prime: Tokens that each query token retrieves. 0 uses the model's default, as production does.
        max_queries: Number of queries to measure. 0 measures all.
        exact_queries: Number of queries that are also searched exactly, to show the loss caused by the index.
        bm25: Whether to measure BM25 as well.
        bm25_documents: Maximum size of a corpus on which BM25 is measured, because it indexes all documents
            in memory, twice. A larger corpus is measured without it, and the reasons of the blessing say so.
            Of its documents, only ids are kept in memory.
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
    """Limits of `ServingValidator`.

    Attributes:
        latency_ms: Maximum latency of a single query in milliseconds, at `latency_quantile`.
        latency_quantile: Share of the queries that must be within `latency_ms`, such as 0.95.
        rounds: Number of times every warm-up query is sent while latency is measured.
        load_timeout_seconds: Time in seconds within which the server must have loaded the model.
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
    """The source of judged queries.

    Attributes:
        folder: Folder of the input, local or such as `gs://bucket/data`.
        train: Pattern of the training files, relative to the folder: JSONL or TSV, or `qrels/train.tsv` of a
            BEIR folder. `{SPAN}` and `{VERSION}` select the latest.
        eval: Pattern of the files with the queries that models are judged by.
        format: `text`, or `tfrecord` for examples that an earlier pipeline wrote.
        schema: Folder of the curated schema. If empty, the schema of this package is used, or the one below
            the pipeline's root if the root is remote.
    """

    folder: str = ""
    train: str = "qrels/train.tsv"
    eval: str = "qrels/dev.tsv"
    format: Literal["text", "tfrecord"] = "text"
    schema: str = ""


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """The source of documents, and how they are encoded.

    Attributes:
        folder: Folder of the input, local or such as `gs://bucket/data`.
        files: Pattern of the files, relative to the folder. `{SPAN}` and `{VERSION}` select the latest.
        format: `text` (JSONL, TSV, Parquet), or `tfrecord`.
        schema: Folder of the curated schema. If empty, the schema of this package is used, or the one below
            the pipeline's root if the root is remote.
        shard_characters: Characters of text per shard, the unit of work and of resuming.
        keep_vectors: Whether to store the vectors of all tokens, 2 bytes per dimension. Otherwise each shard
            is indexed when it is encoded, and its vectors are dropped. Other settings of the index then need
            the whole corpus to be encoded again.
        encoding: How documents are split, stored and pruned.
    """

    folder: str = ""
    files: str = "corpus.jsonl"
    format: Literal["text", "tfrecord"] = "text"
    schema: str = ""
    shard_characters: int = SHARD_CHARACTERS
    keep_vectors: bool = True
    encoding: EncodingConfig = dataclasses.field(default_factory=EncodingConfig)

    def __post_init__(self) -> None:
        require(
            self.shard_characters >= 1, "`corpus.shard_characters` must be positive.", self.shard_characters
        )
        require(
            self.keep_vectors or not self.encoding.min_norm,
            "Without `corpus.keep_vectors`, tokens are counted before they are encoded, so none can be left "
            "out by its norm: leave out `corpus.encoding.min_norm`.",
            self.encoding.min_norm,
        )


@dataclasses.dataclass(frozen=True)
class PartitionedIndexConfig(IndexConfig):
    """How vectors are stored and searched, and how many of them one model contains.

    Attributes:
        tokens_per_partition: Approximate maximum of tokens per model. A corpus with more becomes a collection
            of models of about the same size that answer as one. See `docs/how-to/partitions.md` for the
            memory per token.
    """

    tokens_per_partition: int = 150_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.tokens_per_partition
        require(given >= 1, "`index.tokens_per_partition` must be positive.", given)

    @property
    def of_index(self) -> IndexConfig:
        """Settings of the index itself, which do not depend on how it is exported."""
        return IndexConfig(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(IndexConfig)}
        )


@dataclasses.dataclass(frozen=True)
class MiningConfig(MiningSettings):
    """Hard negatives that are found before training.

    Attributes:
        ranker: Ranker of the documents: `none` for no mining, BM25 over `words` or `ngrams`, or `latest`, the
            latest blessed model (BM25 over n-grams until there is one). All documents are kept in memory.
    """

    ranker: Literal["none", "words", "ngrams", "latest"] = "none"


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """The whole configuration of a pipeline, as in one YAML file.

    Attributes:
        name: Name of the pipeline. The full and the refresh DAG share it, and with it metadata and cache.
        root: Folder of artifacts, metadata and logs, local or such as `gs://bucket/pipeline`.
        push_directory: Folder that versions are pushed to, a model's base directory for servers. If empty,
            `serving` below the root.
        model_name: Name of the model in requests.
        warm_start: What training starts from: `configured` (`run.training.initial_encoder`, or random weights
            without it), or `latest`, the latest blessed model if there is one.
        beam_args: Options of Beam as on a command line. Without any, Beam runs in the pipeline's process, and
            TFX need not package itself for other workers in every component. If they name a runner, such as
            `--runner=DataflowRunner`, its workers also encode the corpus. They also index it if they see the
            pipeline's root as this machine does.
        training_data: Judged queries.
        corpus: Documents.
        mining: Hard negatives found before training, for `run.data.hard_negatives`. None by default.
        run: Tokenizer, encoder, loss and training, as for `xtr-tf train`, but without the sources of data.
        index: How vectors are stored and searched, and how many of them one model contains.
        search: Default parameters of requests.
        choose_alpha: Whether to choose `search.alpha` on a third of the split `eval`. The model is then
            judged on the other two thirds. Needs `index.lexical`.
        store_text: Texts that the model returns: `none`, `snippet` (where the query matched) or `full`.
        gate: Thresholds of the data gate.
        quality: Thresholds that a model must reach to be blessed.
        serving_check: Requirements on the model under a server.
        vertex: Where and on which machines the pipeline runs in Vertex AI. Local runs ignore it.
    """

    name: str = "xtr"
    root: str = "out/pipeline"
    push_directory: str = ""
    model_name: str = "default"
    warm_start: Literal["configured", "latest"] = "configured"
    beam_args: tuple[str, ...] = ()
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
        """Folder that versions are pushed to."""
        return absolute(self.push_directory or posixpath.join(self.root, "serving"))

    @property
    def work_folder(self) -> str:
        """Folder of unfinished work, so that a run that was killed can continue."""
        return absolute(posixpath.join(self.root, "work"))

    @property
    def vocabulary(self) -> str:
        """The SentencePiece file: the configured one, or that of the encoder that training starts from."""
        initial = self.run.training.initial_encoder
        model = self.run.tokenizer.model or (posixpath.join(initial, TOKENIZER_FILE) if initial else "")
        return absolute(model) if model else ""

    def schema_folder(self, kind: Literal["training", "corpus"]) -> str:
        """Returns the folder of a curated schema.

        Args:
            kind: `training` for judged queries, or `corpus` for documents.

        Returns:
            The folder, local or remote.
        """
        given = self.training_data.schema if kind == "training" else self.corpus.schema
        if given:
            return absolute(given)
        return posixpath.join(self.root, "schemas", kind) if is_remote(self.root) else str(_SCHEMAS / kind)


def load_pipeline_config(path: str | Path | None, overrides: Sequence[str] = ()) -> PipelineConfig:
    """Reads a pipeline's configuration from a YAML file and `key=value` overrides.

    Args:
        path: The YAML file, or None for the defaults.
        overrides: Overrides such as `run.training.steps=20`.

    Returns:
        The configuration.

    Raises:
        InputError: The file, a key or a value cannot be used.

    Example:
        >>> config = load_pipeline_config("examples/configs/atlas_pipeline.yaml", ["run.training.steps=20"])
    """
    return load_as(PipelineConfig, path, overrides)


def settings_to_json(settings: Any) -> str:
    """Converts a section to the text of a component's execution property.

    Args:
        settings: The settings.

    Returns:
        JSON. Equal settings give equal text, as caching requires.
    """
    return json.dumps(to_mapping(settings), sort_keys=True)


def settings_from_json(section: type[Settings], text: str | None) -> Settings:
    """Converts the text of `settings_to_json` back to settings.

    Args:
        section: The settings class.
        text: JSON. Empty or None gives the defaults.

    Returns:
        The settings.

    Raises:
        InputError: The text is not a JSON object, or has unknown keys.
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
    """Returns whether a path is on another file system, such as `gs://bucket/folder`."""
    return "://" in path


def absolute(path: str) -> str:
    """Makes a local path absolute. Returns a remote one unchanged."""
    return path if is_remote(path) else str(Path(path).resolve())
