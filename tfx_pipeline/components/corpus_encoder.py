"""CorpusEncoder: encodes documents to token vectors, and reuses the vectors of earlier runs."""

from __future__ import annotations

import json
import posixpath
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import Artifact, BaseChannel, Channel, artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import io_utils

from tfx_pipeline.artifacts import TokenVectorsArtifact, local_encoder
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts, names_runner
from tfx_pipeline.config import is_remote, settings_from_json
from tfx_pipeline.storage import WorkArea, key_of, local_input, local_output
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.encode import EncodingReport, encode_corpus
from xtr_tf.vectors.runners import Runner, run_locally
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import compare_documents, update_vectors

KIND = "vectors"


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
        with ExitStack() as stack:
            encoder = stack.enter_context(local_encoder(model.uri))
            fingerprint = read_manifest(encoder).fingerprint
            origin = key_of(fingerprint, properties["settings"])
            latest = area.latest(KIND, origin)
            base = stack.enter_context(local_input(latest["vectors"])) if latest else None
            work = stack.enter_context(
                area.unfinished(KIND, key_of(origin, corpus.uri, properties["shard_characters"]))
            )
            documents = work / ".documents"  # the dot excludes them from uploads to a remote work area
            _link_examples(corpus, documents)
            report = encode_corpus(
                documents,
                encoder,
                work / "vectors",
                config,
                shard_characters=properties["shard_characters"],
                reuse=base,
                runner=_runner(properties, reuses=base is not None),
            )
            with local_output(vectors.uri) as out:
                _place(work / "vectors", base if properties["keep_order"] else None, out)
        area.remember(KIND, origin, {"vectors": vectors.uri})
        _record(vectors, report, fingerprint, latest)


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
    ) -> None:
        super().__init__(
            CorpusEncoderSpec(
                model=model,
                corpus=corpus,
                settings=settings,
                shard_characters=shard_characters,
                keep_order=int(keep_order),
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


def _runner(properties: dict[str, Any], reuses: bool) -> Runner:
    """Uses Beam's workers if a runner is named, except to reuse earlier vectors that they cannot see."""
    beam_args, work = json.loads(properties["beam_args"]), properties["work"]
    if not names_runner(beam_args) or (reuses and is_remote(work)):
        return run_locally
    from xtr_tf.vectors.beam import BeamRunner
    from xtr_tf.vectors.staged import StagedRunner

    runner = BeamRunner(beam_args)
    return StagedRunner(runner, posixpath.join(work, "staging")) if is_remote(work) else runner


def _place(encoded: Path, base: Path | None, out: Path) -> None:
    """Moves finished vectors to their artifact, or merges them with those of documents that stay."""
    out.rmdir()
    if base is None:
        shutil.move(encoded, out)
        return
    before, now = TokenVectors.open(base), TokenVectors.open(encoded)
    present = {record.id for record in now.documents()}
    gone = [record.id for record in before.documents() if record.id not in present]
    update_vectors(before, now, compare_documents(before, now, gone), out)


def _record(
    vectors: Artifact, report: EncodingReport, fingerprint: str, latest: dict[str, str] | None
) -> None:
    """Records the figures as custom properties, which the metadata store keeps."""
    vectors.set_string_custom_property("encoder_fingerprint", fingerprint)
    if latest:
        vectors.set_string_custom_property("reused", latest["vectors"])
    figures = {
        "documents": report.manifest.num_documents,
        "tokens": report.manifest.num_tokens,
        "documents_encoded": report.counters.get("documents_encoded", 0),
        "documents_reused": report.counters.get("documents_reused", 0),
        "shards_kept": report.shards_kept,
    }
    for name, value in figures.items():
        vectors.set_int_custom_property(name, value)
