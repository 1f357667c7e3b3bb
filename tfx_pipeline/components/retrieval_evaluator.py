"""RetrievalEvaluator: is an exported model good enough, in every language, to replace the current one?

Measures the SavedModel itself, through its own index, on the development queries.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import tensorflow as tf
from tfx.components.evaluator import executor as evaluator
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import Artifact, BaseChannel, Channel, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import path_utils

from tfx_pipeline.artifacts import (
    ENCODER_FOLDER,
    read_document_ids,
    read_model_card,
    refusals,
    write_model_blessing,
)
from tfx_pipeline.blessing import Verdict, judge
from tfx_pipeline.components.collection_push import is_collection
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts
from tfx_pipeline.config import QualitySettings, settings_from_json
from tfx_pipeline.data.languages import LanguagePart, remarks, unspelt_share
from tfx_pipeline.data.splits import Part, development_set
from tfx_pipeline.provenance import code_version
from tfx_pipeline.storage import local_files, local_input, local_output
from tfx_pipeline.withdrawal import identity_of
from xtr_tf.collections.dataset import Dataset
from xtr_tf.evaluation.evaluator import EvaluationSettings, Evaluator
from xtr_tf.evaluation.exported_collection import ExportedCollection
from xtr_tf.evaluation.exported_model import EXACT_DOCUMENTS, IndexModel
from xtr_tf.evaluation.report.content import build_content
from xtr_tf.evaluation.report.html import write_report
from xtr_tf.model.folder import MANIFEST_FILE, TOKENIZER_FILE, parse_manifest
from xtr_tf.model.vocabulary import SentencePieceModel
from xtr_tf.retriever.collection_file import COLLECTION_FILE

_USUAL_K_PRIME = 1_000


class RetrievalEvaluatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of `RetrievalEvaluator`."""

    INPUTS = {  # noqa: RUF012
        "model": ChannelParameter(type=standard_artifacts.Model),
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "corpus": ChannelParameter(type=standard_artifacts.Examples),
        "baseline_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    }
    OUTPUTS = {  # noqa: RUF012
        "evaluation": ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
    }
    PARAMETERS = {  # noqa: RUF012
        "thresholds": ExecutionParameter(type=str),
        "withdrawn": ExecutionParameter(type=str, optional=True),
        "part": ExecutionParameter(type=str, optional=True),
    }


class RetrievalEvaluatorExecutor(SingleArtifacts, evaluator.Executor):
    """Measures the model, writes the report, and decides whether to bless it.

    Derives from TFX's Evaluator only because of Vertex AI. There, only the blessing of such an executor
    records the name of its model, and without that name no later run finds the model.
    """

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX."""
        settings = settings_from_json(QualitySettings, properties["thresholds"])
        model = inputs["model"]
        # In a run without changes, the latest blessed model is this one.
        blessed = inputs.get("baseline_model")
        baseline = blessed if blessed is not None and blessed.id != model.id else None
        examples = inputs["examples"]
        corpus = inputs["corpus"]
        part: Part = properties.get("part") or "all"
        development = development_set(examples, corpus, settings.metric, part)
        evaluation = outputs["evaluation"]
        settings, left_out = bounded(settings, development.documents)
        if not needs_texts(settings, development.documents):
            development = development.without_texts()
        verdict = _evaluate(model, baseline, development.dataset, settings, evaluation)
        if left_out:
            verdict = verdict.noted(left_out)
        if part == "judging":
            verdict = verdict.noted("Judged by the two thirds of the queries that `alpha` was not chosen on.")
        if development.left_out:
            verdict = verdict.noted(
                f"{development.left_out} of {development.judgements} judgements were left out: their "
                "documents are not in the corpus."
            )
        for remark in remarks(
            development.languages,
            {query.language for query in development.dataset.queries},
            _unspelt(model, development.languages),
        ):
            verdict = verdict.noted(remark)
        withdrawn = json.loads(properties.get("withdrawn") or "{}")
        if because := withdrawn.get(_content(model)):
            verdict = verdict.refused(because)
        for language in development.lost_languages:
            verdict = verdict.refused(f"No query in {language} has a document left in the corpus.")
        if "infra_blessing" in inputs:
            for refusal in refusals(inputs["infra_blessing"]):
                verdict = verdict.refused(refusal)
        _record(evaluation, verdict, settings.metric)
        blessing = outputs["blessing"]
        write_model_blessing(blessing, verdict.blessed, verdict.reasons, model, baseline)


class RetrievalEvaluator(base_beam_component.BaseBeamComponent):
    """Compares an exported model with thresholds and with the latest blessed model.

    Outputs `evaluation`, a report as HTML, Markdown and JSON that includes BM25 and the baseline. Also
    outputs `blessing`, with the reasons, which Pusher and LatestBlessedModelStrategy understand.

    Args:
        model: The exported model, a SavedModel in `Format-Serving`, or a collection.
        examples: Training examples. The model is measured on their split `eval`.
        corpus: Documents, for BM25 and for the exact search.
        baseline_model: The latest blessed model, if there is one.
        infra_blessing: Result of ServingValidator. A model that cannot be served is not blessed, however
            good it is, so that the latest blessed model could always be pushed.
        thresholds: `QualitySettings` as JSON.
        withdrawn: Why versions were withdrawn, by the identity of their content. They are not blessed again.
        part: Part of the split's queries to measure, as for `development_set`.
    """

    SPEC_CLASS = RetrievalEvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(RetrievalEvaluatorExecutor)

    def __init__(
        self,
        model: BaseChannel,
        examples: BaseChannel,
        corpus: BaseChannel,
        baseline_model: BaseChannel | None = None,
        infra_blessing: BaseChannel | None = None,
        thresholds: str = "{}",
        withdrawn: Mapping[str, str] | None = None,
        part: Part = "all",
    ) -> None:
        settings_from_json(QualitySettings, thresholds)
        super().__init__(
            RetrievalEvaluatorSpec(
                model=model,
                examples=examples,
                corpus=corpus,
                baseline_model=baseline_model,
                infra_blessing=infra_blessing,
                thresholds=thresholds,
                withdrawn=json.dumps(dict(withdrawn or {}), sort_keys=True),
                part=part,
                evaluation=Channel(type=standard_artifacts.ModelEvaluation),
                blessing=Channel(type=standard_artifacts.ModelBlessing),
            )
        )


def bounded(settings: QualitySettings, documents: int) -> tuple[QualitySettings, str]:
    """Turns off BM25 for a corpus that is too large for it.

    Args:
        settings: Settings as configured.
        documents: Number of documents in the corpus.

    Returns:
        The settings, without BM25 if the corpus is too large, and a sentence that says so, or "".
    """
    if not settings.bm25 or documents <= settings.bm25_documents:
        return settings, ""
    sentence = (
        f"BM25 was not measured: the corpus has {documents:,} documents, more than `quality.bm25_documents`, "
        f"{settings.bm25_documents:,}."
    )
    return dataclasses.replace(settings, bm25=False), sentence


def needs_texts(settings: QualitySettings, documents: int) -> bool:
    """Returns whether the texts of the corpus must be in memory.

    Args:
        settings: Settings from `bounded`.
        documents: Number of documents in the corpus.

    Returns:
        Whether BM25 or the exact search reads the texts.
    """
    return settings.bm25 or (settings.exact_queries > 0 and documents <= EXACT_DOCUMENTS)


def _evaluate(
    model: Artifact,
    baseline: Artifact | None,
    dataset: Dataset,
    settings: QualitySettings,
    evaluation: Artifact,
) -> Verdict:
    started = time.perf_counter()
    with ExitStack() as stack:
        out = stack.enter_context(local_output(evaluation.uri))
        tested = _open(path_utils.serving_model_path(model.uri), "this model", stack)
        opponent = documents = None
        if baseline is not None:
            serving_model = path_utils.serving_model_path(baseline.uri)
            opponent = _open(serving_model, "latest blessed model", stack)
            documents = read_document_ids(baseline.uri)
        measured = EvaluationSettings(
            k_prime=settings.k_prime or _default_k_prime(model),
            max_queries=settings.max_queries,
            bm25=settings.bm25,
            fusion=settings.bm25,
            exact_queries=settings.exact_queries,
        )
        measuring = Evaluator(tested, measured, out, opponent, baseline_documents=documents)
        result = measuring.evaluate(dataset)
        compared = {"name": opponent.name, "kind": opponent.kind} if opponent else None
        described = {"name": tested.name, "kind": tested.kind}
        content = build_content([result], measured, described, compared, time.perf_counter() - started)
        write_report(out, content)
    return judge(content, settings)


def _open(uri: str, name: str, stack: ExitStack) -> IndexModel:
    """Opens a model or a collection. A remote partition is local only while it is searched."""
    if is_collection(uri):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tf.io.gfile.copy(posixpath.join(uri, COLLECTION_FILE), posixpath.join(folder, COLLECTION_FILE))
        collection = ExportedCollection(folder, lambda path: local_input(posixpath.join(uri, path)))
        stack.callback(collection.close)
        model = IndexModel(collection)
    else:
        model = IndexModel(stack.enter_context(local_input(uri)))
    model.name = name
    return model


def _unspelt(model: Artifact, languages: Mapping[str, LanguagePart]) -> dict[str, float]:
    """Returns the share of each language that the model's vocabulary has no pieces for."""
    with local_files(f"{model.uri}/{ENCODER_FOLDER}", [MANIFEST_FILE, TOKENIZER_FILE]) as encoder:
        manifest = encoder / MANIFEST_FILE
        if not manifest.is_file():  # an export of an earlier version
            return {}
        vocabulary = SentencePieceModel.read(encoder / TOKENIZER_FILE)
        lowercase = parse_manifest(manifest.read_text("utf-8"), str(manifest)).tokenizer.lowercase
    return {
        language: unspelt_share(part.sample, vocabulary, lowercase) for language, part in languages.items()
    }


def _content(model: Artifact) -> str:
    """Returns the identity of a model's content, as `withdrawal` defines it."""
    card = read_model_card(model.uri)
    return identity_of(card) if card else ""


def _default_k_prime(model: Artifact) -> int:
    """Returns the k' of requests that do not set one."""
    return int(read_model_card(model.uri).get("defaults", {}).get("k_prime", _USUAL_K_PRIME))


def _record(evaluation: Artifact, verdict: Verdict, metric: str) -> None:
    """Records the figures as custom properties, which the metadata store keeps."""
    evaluation.set_string_custom_property("metric", metric)
    evaluation.set_string_custom_property("code", code_version())
    for system, value in verdict.averages.items():
        evaluation.set_float_custom_property(f"average_{system}", value)
    for language, value in verdict.languages.items():
        evaluation.set_float_custom_property(f"language_{language}", value)
