"""CorpusEncoder: encodes documents to token vectors, and reuses the vectors of earlier runs.

With the settings of the index, it also codes each shard, so that vectors are never stored. A refresh then
encodes the documents that changed, with the leaves and codebooks of the last index.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import Artifact, BaseChannel, Channel, artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import io_utils

from tfx_pipeline.artifacts import TokenVectorsArtifact, local_encoder
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts, named_runner
from tfx_pipeline.config import is_remote, settings_from_json
from tfx_pipeline.storage import WorkArea, folder_at, key_of, local_output
from xtr_tf.collections.corpus import Corpus, CorpusReader
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.one_pass import OnePass
from xtr_tf.index.refresh import encode_changes
from xtr_tf.index.update import TrainingState, advice
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.encode import EncodingReport, encode_corpus
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner, run_locally
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import ChangedDocuments, DocumentChanges, compare_documents, update_vectors

KIND = "vectors"
#: The kind of work that IndexBuilder remembers.
INDEX_KIND = "index"


class CorpusEncoderSpec(ComponentSpec):
    """Inputs, outputs and parameters of `CorpusEncoder`."""

    INPUTS = {  # noqa: RUF012
        "model": ChannelParameter(type=standard_artifacts.Model),
        "corpus": ChannelParameter(type=standard_artifacts.Examples),
    }
    OUTPUTS = {"vectors": ChannelParameter(type=TokenVectorsArtifact)}  # noqa: RUF012
    PARAMETERS = {  # noqa: RUF012
        "settings": ExecutionParameter(type=str),
        "shard_characters": ExecutionParameter(type=int),
        "keep_order": ExecutionParameter(type=int),
        "index_settings": ExecutionParameter(type=str, optional=True),
        "work": ExecutionParameter(type=str),
        "beam_args": ExecutionParameter(type=str),
    }


class CorpusEncoderExecutor(SingleArtifacts, base_executor.BaseExecutor):
    """Encodes a corpus in the work area and moves the result to its artifact."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX."""
        model = inputs["model"]
        corpus = inputs["corpus"]
        vectors = outputs["vectors"]
        config = settings_from_json(EncodingConfig, properties["settings"])
        area = WorkArea(properties["work"])
        indexing = properties.get("index_settings")
        with ExitStack() as stack:
            encoder = stack.enter_context(local_encoder(model.uri))
            fingerprint = read_manifest(encoder).fingerprint
            origin = key_of(
                *(fingerprint, properties["settings"], json.dumps(config.vector_settings())),
                *([indexing] if indexing else []),
            )
            latest = area.latest(KIND, origin)
            work = stack.enter_context(
                area.unfinished(KIND, key_of(origin, corpus.uri, properties["shard_characters"]))
            )
            documents = work / ".documents"  # the dot excludes them from uploads to a remote work area
            _link_examples(corpus, documents)
            job = _Job(documents, encoder, work, config, properties)
            out = stack.enter_context(local_output(vectors.uri, last=MANIFEST_FILE))
            out.rmdir()
            if not indexing:
                figures = job.encode(folder_at(latest["vectors"]) if latest else None, out)
            else:
                last = area.latest(INDEX_KIND, key_of(fingerprint, indexing))
                if not (properties["keep_order"] and last and latest == {"vectors": last["vectors"]}):
                    latest = None
                    figures = job.code(settings_from_json(IndexConfig, indexing), out)
                else:
                    index, base = (folder_at(last[name]) for name in ("index", "vectors"))
                    figures = job.code_changes(TokenIndex.open(index), TokenVectors.open(base), out)
        area.remember(KIND, origin, {"vectors": vectors.uri})
        vectors.set_string_custom_property("encoder_fingerprint", fingerprint)
        if latest and figures["documents_reused"]:
            vectors.set_string_custom_property("reused", latest["vectors"])
        for name, value in figures.items():
            vectors.set_int_custom_property(name, value)


@dataclasses.dataclass(frozen=True)
class _Job:
    """Everything that one run of the component works with."""

    documents: Path
    encoder: Path
    work: Path
    config: EncodingConfig
    properties: dict[str, Any]

    def encode(self, earlier: Folder | None, out: Path) -> dict[str, int]:
        """Encodes the corpus, except texts whose vectors are in `earlier`. Returns figures."""
        if earlier and self.properties["keep_order"]:
            return self._encode_changes(TokenVectors.open(earlier), out)
        report = self._encode(self.documents, "vectors", reuse=earlier, runner=_runner(self.properties))
        shutil.move(self.work / "vectors", out)
        return _figures(report)

    def code(self, config: IndexConfig, out: Path) -> dict[str, int]:
        """Encodes and codes the whole corpus. Returns figures."""
        one_pass = OnePass(_runner(self.properties), config)
        report = self._encode(self.documents, "vectors", runner=one_pass, coding=one_pass.settings)
        shutil.move(self.work / "vectors", out)
        return _figures(report)

    def code_changes(self, last: TokenIndex, base: TokenVectors, out: Path) -> dict[str, int]:
        """Encodes what changed and codes it as the last index, if that still fits the corpus."""
        changed = self._changed(base)
        runner, size = _runner(self.properties), self.properties["shard_characters"]
        added, encoded = encode_changes(
            *(changed, base, last, self.encoder, self.work / "changes", runner), shard_characters=size
        )
        changes = _compare(base, added, changed)
        tokens = int(np.diff(base.document_offsets)[changes.kept].sum()) + (added.num_tokens if added else 0)
        if advice(TrainingState.read(last), tokens, 1.0):
            return self.code(last.config, out)
        return _refreshed(update_vectors(base, added, changes, out), encoded)

    def _encode_changes(self, base: TokenVectors, out: Path) -> dict[str, int]:
        """Encodes what changed, after the documents that stay."""
        changed, added, encoded = self._changed(base), None, 0
        if next(iter(changed), None) is not None:
            report = self._encode(changed, "changes", reuse=base.files, runner=_runner(self.properties))
            added, encoded = TokenVectors.open(self.work / "changes"), report.counters["documents_encoded"]
        return _refreshed(update_vectors(base, added, _compare(base, added, changed), out), encoded)

    def _changed(self, base: TokenVectors) -> ChangedDocuments:
        return ChangedDocuments(CorpusReader(self.documents, fields=self.config.fields), base)

    def _encode(self, documents: Path | Corpus, name: str, **options: Any) -> EncodingReport:
        return encode_corpus(
            *(documents, self.encoder, self.work / name, self.config),
            shard_characters=self.properties["shard_characters"],
            **options,
        )


def _compare(base: TokenVectors, added: TokenVectors | None, changed: ChangedDocuments) -> DocumentChanges:
    gone = [identifier for identifier in base.document_ids if identifier not in changed.present]
    return compare_documents(base, added, gone)


class CorpusEncoder(base_component.BaseComponent):
    """Encodes the corpus. Vectors of texts that this encoder encoded before are copied.

    Outputs `vectors`, the folder that `xtr-tf encode` writes.

    Args:
        model: Model with an encoder: the Trainer's, or an exported retriever.
        corpus: Documents.
        settings: `EncodingConfig` as JSON.
        shard_characters: Characters of text per shard, the unit of work and of resuming.
        work: Work area of the pipeline.
        beam_args: Options of Beam. If they name a runner, its workers encode. Otherwise this process does.
        keep_order: Whether unchanged documents keep their positions and new ones come last, so that the
            last index can be updated.
        index_settings: `IndexConfig` as JSON, to code each shard when it is encoded and drop its vectors. If
            empty, vectors are kept.
    """

    SPEC_CLASS = CorpusEncoderSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(CorpusEncoderExecutor)

    def __init__(
        self,
        model: BaseChannel,
        corpus: BaseChannel,
        settings: str,
        shard_characters: int,
        work: str,
        beam_args: tuple[str, ...] = (),
        keep_order: bool = False,
        index_settings: str = "",
    ) -> None:
        super().__init__(
            CorpusEncoderSpec(
                model=model,
                corpus=corpus,
                settings=settings,
                shard_characters=shard_characters,
                keep_order=int(keep_order),
                index_settings=index_settings,
                work=work,
                beam_args=json.dumps(beam_args),
                vectors=Channel(type=TokenVectorsArtifact),
            )
        )


def _link_examples(corpus: Artifact, folder: Path) -> None:
    """Links the files of all splits under names that `CorpusReader` recognises."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    number = 0
    for split in artifact_utils.decode_split_names(corpus.split_names):
        pattern = io_utils.all_files_pattern(artifact_utils.get_split_uri([corpus], split))
        for file in sorted(tf.io.gfile.glob(pattern)):
            name = folder / f"part-{number:05d}.tfrecord.gz"
            if is_remote(file):
                tf.io.gfile.copy(file, str(name))
            else:
                name.symlink_to(file)
            number += 1


def _runner(properties: dict[str, Any]) -> Runner:
    return named_runner(properties["beam_args"], properties["work"]) or run_locally


def _figures(report: EncodingReport) -> dict[str, int]:
    """Returns figures for custom properties, which the metadata store keeps."""
    return {
        "documents": report.manifest.num_documents,
        "tokens": report.manifest.num_tokens,
        "documents_encoded": report.counters.get("documents_encoded", 0),
        "documents_reused": report.counters.get("documents_reused", 0),
        "shards_kept": report.shards_kept,
    }


def _refreshed(now: TokenVectors, encoded: int) -> dict[str, int]:
    """Returns the same figures of vectors that were mostly there before."""
    return {
        "documents": now.num_documents,
        "tokens": now.num_tokens,
        "documents_encoded": encoded,
        "documents_reused": now.num_documents - encoded,
        "shards_kept": 0,
    }
