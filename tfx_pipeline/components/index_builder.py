"""IndexBuilder: builds a search index from token vectors, from scratch or by updating the last one."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import BaseChannel, Channel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_pipeline.artifacts import TokenIndexArtifact, TokenVectorsArtifact
from tfx_pipeline.components.corpus_encoder import INDEX_KIND as KIND
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts, named_runner
from tfx_pipeline.config import settings_from_json
from tfx_pipeline.storage import WorkArea, folder_at, key_of, local_output
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.one_pass import is_coded, join_coded
from xtr_tf.index.parts import build_in_parts, take_with
from xtr_tf.index.quantizer import trained_quantizer
from xtr_tf.index.update import TrainingState, advice, check_belongs, drift, update_index
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import compare_documents


class IndexBuilderSpec(ComponentSpec):
    """Inputs, outputs and parameters of `IndexBuilder`."""

    INPUTS = {"vectors": ChannelParameter(type=TokenVectorsArtifact)}  # noqa: RUF012
    OUTPUTS = {"index": ChannelParameter(type=TokenIndexArtifact)}  # noqa: RUF012
    PARAMETERS = {  # noqa: RUF012
        "settings": ExecutionParameter(type=str),
        "update": ExecutionParameter(type=int),
        "work": ExecutionParameter(type=str),
        "beam_args": ExecutionParameter(type=str),
    }


class IndexBuilderExecutor(SingleArtifacts, base_executor.BaseExecutor):
    """Builds an index, or updates the last one if that is requested and it still fits the vectors."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX."""
        vectors = inputs["vectors"]
        index = outputs["index"]
        config = settings_from_json(IndexConfig, properties["settings"])
        area = WorkArea(properties["work"])
        source = TokenVectors.open(folder_at(vectors.uri))
        origin = key_of(source.encoder_fingerprint, properties["settings"])
        latest = area.latest(KIND, origin) if properties["update"] else None
        runner = named_runner(properties["beam_args"], properties["work"])
        reason = "no index of this encoder and these settings to update"
        with local_output(index.uri, last=MANIFEST_FILE) as out:
            out.rmdir()
            if latest and not is_coded(source.files):
                last, base = TokenIndex.open(folder_at(latest["index"])), folder_at(latest["vectors"])
                reason = update_if_suited(last, TokenVectors.open(base), source, out, runner)
            built = _build(source, out, config, runner) if reason else TokenIndex.open(out)
            refreshes = TrainingState.read(built).refreshes
        area.remember(KIND, origin, {"index": index.uri, "vectors": vectors.uri})
        index.set_int_custom_property("tokens", built.num_tokens)
        index.set_int_custom_property("refreshes", refreshes)
        if latest and not reason:
            index.set_string_custom_property("updated", latest["index"])
        if properties["update"] and reason:
            index.set_string_custom_property("full_build_reason", reason)


class IndexBuilder(base_component.BaseComponent):
    """Builds the index of token vectors.

    Outputs `index`, the folder that `xtr-tf index` writes.

    Args:
        vectors: Token vectors.
        settings: `IndexConfig` as JSON.
        work: Work area of the pipeline.
        beam_args: Options of Beam. If they name a runner, its workers make a part of each shard, and this
            process joins the parts. Otherwise this process builds the index.
        update: Whether to keep the leaves and codes of the last index for documents that stayed. An index
            whose leaves no longer fit the corpus is built from scratch anyway.
    """

    SPEC_CLASS = IndexBuilderSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(IndexBuilderExecutor)

    def __init__(
        self,
        vectors: BaseChannel,
        settings: str,
        work: str,
        beam_args: tuple[str, ...] = (),
        update: bool = False,
    ) -> None:
        super().__init__(
            IndexBuilderSpec(
                vectors=vectors,
                settings=settings,
                update=int(update),
                work=work,
                beam_args=json.dumps(beam_args),
                index=Channel(type=TokenIndexArtifact),
            )
        )


def _build(source: TokenVectors, out: Path, config: IndexConfig, runner: Runner | None) -> TokenIndex:
    """Builds the index, with Beam's workers if a runner is named. Same result."""
    if is_coded(source.files):
        return join_coded(source.files, out)
    return build_in_parts(source.files, out, config, runner) if runner else build_index(source, out, config)


def update_if_suited(
    last: TokenIndex, base: TokenVectors, source: TokenVectors, out: Path, runner: Runner | None = None
) -> str:
    """Updates an index if it still fits the vectors.

    Args:
        last: The last index.
        base: The vectors that it was made from.
        source: The vectors to index.
        out: Directory of the new index.
        runner: Workers that read a sample of remote vectors; None if this process does.

    Returns:
        "" if the index was updated. Otherwise the reason to build it from scratch. Nothing is written then.
    """
    if dict(base.manifest.settings) != dict(source.manifest.settings):
        return "the documents were encoded with other settings than those of the last index"
    present = {record.id for record in source.documents()}
    gone = [record.id for record in base.documents() if record.id not in present]
    kept = compare_documents(base, source, gone).kept
    try:
        check_belongs(last, base, np.ones(last.num_documents, bool))
        check_belongs(last, source, kept)
    except InputError:
        return "the documents stand in another order than in the last index"
    quantizer = trained_quantizer(last)
    if quantizer is not None:
        stay = int(source.document_offsets[kept.sum()])
        take = functools.partial(take_with, runner, source) if runner else None
        ratio = drift(quantizer, source, stay, take=take)
        if reason := advice(TrainingState.read(last), source.num_tokens, ratio):
            return reason
    update_index(last, source, kept, out)
    return ""
