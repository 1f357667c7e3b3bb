"""RetrieverExporter: exports encoder, vectors and index as one SavedModel, and verifies it first.

An index that is too large for one model becomes a collection: one SavedModel per partition.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import Artifact, BaseChannel, Channel, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import path_utils

from tfx_pipeline.artifacts import (
    ENCODER_FOLDER,
    TokenIndexArtifact,
    TokenVectorsArtifact,
    local_encoder,
    write_document_ids,
)
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts, names_runner
from tfx_pipeline.config import is_remote, settings_from_json
from tfx_pipeline.data.splits import SPLIT, development_set
from tfx_pipeline.provenance import code_version
from tfx_pipeline.storage import folder_at, local_output
from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex
from xtr_tf.retriever.assembly import Assembly, assemble_retriever
from xtr_tf.retriever.export import export_retriever
from xtr_tf.retriever.export_partitions import PartitionExport, export_partitions
from xtr_tf.retriever.model_card import ModelCard, card_of_collection, read_card
from xtr_tf.retriever.partitions import MOST
from xtr_tf.retriever.session import RetrieverSession
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors

_STAGING = ".export"


class RetrieverExporterSpec(ComponentSpec):
    """Inputs, outputs and parameters of `RetrieverExporter`."""

    INPUTS = {  # noqa: RUF012
        "encoder": ChannelParameter(type=standard_artifacts.Model),
        "vectors": ChannelParameter(type=TokenVectorsArtifact),
        "index": ChannelParameter(type=TokenIndexArtifact),
        "examples": ChannelParameter(type=standard_artifacts.Examples, optional=True),
        "corpus": ChannelParameter(type=standard_artifacts.Examples, optional=True),
    }
    OUTPUTS = {"model": ChannelParameter(type=standard_artifacts.Model)}  # noqa: RUF012
    PARAMETERS = {  # noqa: RUF012
        "defaults": ExecutionParameter(type=str),
        "model_name": ExecutionParameter(type=str),
        "store_text": ExecutionParameter(type=str, optional=True),
        "tokens_per_partition": ExecutionParameter(type=int, optional=True),
        "beam_args": ExecutionParameter(type=str, optional=True),
    }


class RetrieverExporterExecutor(SingleArtifacts, base_executor.BaseExecutor):
    """Exports through the gate of `xtr_tf.retriever`. A model that fails it does not become an artifact."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX.

        Raises:
            InputError: A collection is needed, and `alpha` is to be chosen, which needs all documents in one
                model.
        """
        defaults = settings_from_json(SearchDefaults, properties["defaults"])
        model = outputs["model"]
        with ExitStack() as stack:
            encoder = stack.enter_context(local_encoder(inputs["encoder"].uri))
            vectors, index = (folder_at(inputs[name].uri) for name in ("vectors", "index"))
            out = stack.enter_context(local_output(model.uri))
            store_text = properties.get("store_text") or "full"
            partitions = _partitions(index, properties.get("tokens_per_partition"))
            if partitions > 1:
                if "examples" in inputs:
                    raise InputError(
                        "`choose_alpha` needs a model that is not split; set `search.alpha` instead, or "
                        f"raise `index.tokens_per_partition`. Received: {partitions} partitions."
                    )
                job = PartitionExport(str(encoder), vectors, index, partitions, defaults, store_text)
                shared = not any(is_remote(own.uri) for own in (*inputs.values(), model))
                card = _export_collection(job, out, _runner(properties) if shared else None)
            else:
                assembly = assemble_retriever(encoder, vectors, index, defaults, store_text)
                if "examples" in inputs and "corpus" in inputs:
                    assembly = _with_best_alpha(assembly, inputs["examples"], inputs["corpus"])
                card = _export(assembly, properties["model_name"], out)
            # Refreshing the corpus needs the encoder of the blessed model.
            shutil.copytree(encoder, out / ENCODER_FOLDER)
            write_document_ids(out, TokenVectors.open(vectors).document_ids)
        _record(model, card)


class RetrieverExporter(base_component.BaseComponent):
    """Writes the servable model, with warm-up requests, reference answers and a model card.

    Outputs `model`, with the SavedModel in `Format-Serving`, where Pusher looks, and the encoder next to it.
    For a collection, `Format-Serving` contains `collection.json` and one SavedModel per partition.

    Args:
        encoder: Model that contains the encoder.
        vectors: Token vectors of the corpus.
        index: Index of the token vectors.
        defaults: `SearchDefaults` as JSON.
        model_name: Name of the model in requests.
        store_text: How much of the texts the model returns, as for `assemble_retriever`.
        tokens_per_partition: Approximate maximum of tokens per model. A larger index becomes a collection.
        beam_args: Options of Beam. If they name a runner, its workers export the partitions in parallel,
            provided that they can see the file system of the artifacts. Otherwise this process exports one
            partition after the other.
        examples: Training examples. `alpha` is chosen on a third of their split `eval`. None uses the `alpha`
            of `defaults`.
        corpus: Documents that the examples name.
    """

    SPEC_CLASS = RetrieverExporterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(RetrieverExporterExecutor)

    def __init__(
        self,
        encoder: BaseChannel,
        vectors: BaseChannel,
        index: BaseChannel,
        defaults: str,
        model_name: str,
        store_text: str = "full",
        tokens_per_partition: int = MOST,
        beam_args: tuple[str, ...] = (),
        examples: BaseChannel | None = None,
        corpus: BaseChannel | None = None,
    ) -> None:
        super().__init__(
            RetrieverExporterSpec(
                encoder=encoder,
                vectors=vectors,
                index=index,
                defaults=defaults,
                model_name=model_name,
                store_text=store_text,
                tokens_per_partition=tokens_per_partition,
                beam_args=json.dumps(beam_args),
                examples=examples,
                corpus=corpus,
                model=Channel(type=standard_artifacts.Model),
            )
        )


def _with_best_alpha(assembly: Assembly, examples: Artifact, corpus: Artifact) -> Assembly:
    """Returns the same retriever with the `alpha` that is best on development queries.

    The model is not judged on these queries. The language of a query is unknown, so `serving_default` has one
    `alpha` for all languages: the best for their mean. Callers that know the language find its own `alpha` in
    the model card.
    """
    from xtr_tf.evaluation.alpha import best_alpha, measure_alphas, over_languages

    retriever, card = assembly.retriever, assembly.card
    development = development_set(examples, corpus, "nDCG@10", "choosing")
    means = measure_alphas(RetrieverSession(retriever), development.dataset)
    of_all = over_languages(means)
    retriever.defaults = dataclasses.replace(retriever.defaults, alpha=best_alpha(of_all))
    metrics = {
        **card.metrics,
        **{f"nDCG@10 on a third of {SPLIT}, alpha {alpha}": mean for alpha, mean in of_all.items()},
        **{
            f"best alpha on a third of {SPLIT}, {language}": best_alpha(own)
            for language, own in means.items()
        },
    }
    card = dataclasses.replace(card, defaults=dataclasses.asdict(retriever.defaults), metrics=metrics)
    return Assembly(retriever, card)


def _export(assembly: Assembly, name: str, out: Path) -> ModelCard:
    exported = export_retriever(assembly.retriever, out / _STAGING / name, assembly.card)
    exported.directory.rename(path_utils.serving_model_dir(str(out)))
    shutil.rmtree(out / _STAGING)
    return assembly.card


def _partitions(index: Folder, tokens_per_partition: int | None) -> int:
    """Returns the number of models for an index. A document is never split, however many tokens it has."""
    opened = TokenIndex.open(index)
    wanted = math.ceil(opened.num_tokens / (tokens_per_partition or MOST))
    return min(wanted, np.count_nonzero(np.diff(opened.document_offsets)))


def _runner(properties: dict[str, Any]) -> Runner | None:
    """Returns a runner with Beam's workers if the options name one."""
    beam_args = json.loads(properties.get("beam_args") or "[]")
    if not names_runner(beam_args):
        return None
    from xtr_tf.vectors.beam import BeamRunner

    return BeamRunner(beam_args)


def _export_collection(job: PartitionExport, out: Path, runner: Runner | None) -> ModelCard:
    """Writes a collection where a single model would be, with a card for all partitions."""
    folder = out / _STAGING
    collection = export_partitions(job, folder, runner=runner)
    cards = [read_card(folder / entry.path / str(entry.version)) for entry in collection.partitions]
    card = card_of_collection(cards)
    card.write(folder)
    folder.rename(path_utils.serving_model_dir(str(out)))
    return card


def _record(model: Artifact, card: ModelCard) -> None:
    """Records what the model was made from as custom properties, which the metadata store keeps."""
    model.set_string_custom_property("encoder_fingerprint", card.encoder["fingerprint"])
    model.set_string_custom_property("corpus_sha256", card.corpus["sha256"])
    model.set_int_custom_property("documents", card.corpus["documents"])
    model.set_int_custom_property("tokens", card.corpus["tokens"])
    model.set_string_custom_property("code", code_version())
