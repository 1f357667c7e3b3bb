"""What a pipeline can be configured with: frozen dataclasses, read from YAML as a run's are.

No TFX here: a configuration file is checked in no time. Everything that differs between a laptop
and a cloud is a value in this file; `pipeline.py` does not know where it runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tfx_pipeline.gate_settings import GateSettings
from tfx_pipeline.quality_settings import QualitySettings
from tfx_pipeline.serving_check_settings import ServingCheckSettings
from tfx_pipeline.vertex_config import VertexConfig
from xtr_tf.config.loading import load_as
from xtr_tf.config.run import RunConfig
from xtr_tf.config.schema import IndexConfig, require
from xtr_tf.corpus.encode_corpus import SHARD_CHARACTERS
from xtr_tf.corpus.encoding_config import EncodingConfig
from xtr_tf.encoder.manifest import TOKENIZER_FILE
from xtr_tf.retriever.search_defaults import SearchDefaults

_SCHEMAS = Path(__file__).parent / "schemas"


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
class PipelineConfig:
    """The whole configuration of a pipeline, as one YAML file holds it.

    Attributes:
        name: Of the pipeline; the full and the refresh DAG share it, and with it metadata and cache.
        root: Folder of artifacts, metadata and logs, local or such as `gs://bucket/pipeline`.
        serving: Folder that versions are pushed to, a model's base directory for servers; empty
            takes `serving` below the root.
        model_name: What requests call the model.
        warm_start: What training starts from: `configured` (`run.training.initial_encoder`, or
            random weights without it), or `latest`, the latest blessed model where there is one.
        beam_args: Options of Beam as on a command line; with `--runner=DataflowRunner` the corpus
            is encoded by its workers, too.
        training_data: Judged queries.
        corpus: Documents.
        run: Tokenizer, encoder, loss and training, as for `xtr-tf train`; where the data come from
            is not its business here.
        index: How vectors are kept and searched.
        search: Parameters of requests that name none.
        gate: What the data gate tolerates.
        quality: What a model must reach to be blessed.
        serving_check: What it must do under a server.
        vertex: Where and on what it runs in Vertex AI; a local run ignores it.
    """

    name: str = "xtr"
    root: str = "out/pipeline"
    serving: str = ""
    model_name: str = "default"
    warm_start: Literal["configured", "latest"] = "configured"
    beam_args: tuple[str, ...] = ("--direct_num_workers=1", "--direct_running_mode=in_memory")
    training_data: TrainingDataConfig = dataclasses.field(default_factory=TrainingDataConfig)
    corpus: CorpusConfig = dataclasses.field(default_factory=CorpusConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    index: IndexConfig = dataclasses.field(default_factory=IndexConfig)
    search: SearchDefaults = dataclasses.field(default_factory=SearchDefaults)
    gate: GateSettings = dataclasses.field(default_factory=GateSettings)
    quality: QualitySettings = dataclasses.field(default_factory=QualitySettings)
    serving_check: ServingCheckSettings = dataclasses.field(default_factory=ServingCheckSettings)
    vertex: VertexConfig = dataclasses.field(default_factory=VertexConfig)

    def __post_init__(self) -> None:
        require(bool(self.name), "`name` must not be empty.", self.name)
        require(bool(self.root), "`root` must name a folder.", self.root)
        require(
            not self.run.data.train and not self.run.data.dev,
            "A pipeline's data are set by `training_data` and `corpus`; leave out `run.data.train` and "
            "`run.data.dev`.",
            [source.path for source in (*self.run.data.train, *self.run.data.dev)],
        )

    @property
    def serving_folder(self) -> str:
        """Where versions are pushed."""
        return absolute(self.serving or posixpath.join(self.root, "serving"))

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

    Example:
    ```python
    config = load_pipeline_config("examples/configs/atlas_pipeline.yaml", ["run.training.steps=20"])
    ```
    """
    return load_as(PipelineConfig, path, overrides)


def is_remote(path: str) -> bool:
    """Whether a path is another file system's, such as `gs://bucket/folder`."""
    return "://" in path


def absolute(path: str) -> str:
    """A local path made absolute; a remote one as it is."""
    return path if is_remote(path) else str(Path(path).resolve())


def content_hash(path: str) -> str:
    """SHA-256 of a local file, so that caching sees it change; empty for what is remote or absent."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if not is_remote(path) and file.is_file() else ""
