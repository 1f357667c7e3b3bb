"""DataGate: stops a run whose data would make a model worse, before training starts.

Combines the findings of ExampleValidator with problems that it cannot see: languages that vanished or
drifted, and judged queries that do not match the corpus. Data that pass leave their statistics for the next
comparison.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.components.example_validator import executor as example_validator
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.dsl.io import fileio
from tfx.types import Artifact, BaseChannel, Channel, artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import io_utils

from tfx_pipeline.artifacts import DataGateArtifact
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts
from tfx_pipeline.config import GateSettings, settings_from_json
from tfx_pipeline.data.checks import anomaly_sentences, drifted_languages, language_counts, vanished_languages
from tfx_pipeline.data.example_gen import MISSING as LEFT_OUT
from tfx_pipeline.data.positives import MISSING, NAMED, Finding, check_positives, read_findings
from tfx_pipeline.data.sources import Missing
from tfx_pipeline.storage import local_input, local_output
from xtr_tf.errors import InputError

_KINDS = {"training": "training data", "corpus": "corpus"}
_FINDINGS_FILE = "findings.jsonl"


class DataGateSpec(ComponentSpec):
    """Inputs, outputs and parameters of `DataGate`."""

    INPUTS = {  # noqa: RUF012
        "training_examples": ChannelParameter(type=standard_artifacts.Examples),
        "training_statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "training_schema": ChannelParameter(type=standard_artifacts.Schema),
        "training_anomalies": ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "corpus_examples": ChannelParameter(type=standard_artifacts.Examples),
        "corpus_statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "corpus_schema": ChannelParameter(type=standard_artifacts.Schema),
        "corpus_anomalies": ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "previous": ChannelParameter(type=DataGateArtifact, optional=True),
    }
    OUTPUTS = {"gate": ChannelParameter(type=DataGateArtifact)}  # noqa: RUF012
    PARAMETERS = {  # noqa: RUF012
        "thresholds": ExecutionParameter(type=str),
        "splits": ExecutionParameter(type=str, optional=True),
    }


class DataGateExecutor(SingleArtifacts, base_beam_executor.BaseBeamExecutor):
    """Runs all checks. If there are problems, logs all of them and raises an error with the first."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX.

        Raises:
            InputError: The data do not pass. The message has the first problem.
        """
        settings = settings_from_json(GateSettings, properties["thresholds"])
        gate = outputs["gate"]
        splits = json.loads(properties.get("splits") or "[]") or _splits(inputs["training_examples"])
        # Findings about single queries come first: they are clearer than statistics.
        problems = [
            *self._problems_of_positives(inputs, gate, splits, settings),
            *_problems_of_statistics(inputs, splits, settings),
        ]
        if problems:
            for problem in problems:
                logging.error("Data gate: %s.", problem)
            raise InputError(_refusal(problems))
        _keep_statistics(inputs, splits, gate)

    def _problems_of_positives(
        self, inputs: Artifacts, gate: Artifact, splits: list[str], settings: GateSettings
    ) -> list[str]:
        examples, corpus = inputs["training_examples"], inputs["corpus_examples"]
        findings = f"{gate.uri}/{_FINDINGS_FILE}"
        fileio.makedirs(gate.uri)
        with self._make_beam_pipeline() as pipeline:
            check_positives(
                pipeline,
                {split: _files(examples, split) for split in splits},
                [_files(corpus, split) for split in _splits(corpus)],
                findings,
            )
        with fileio.open(findings) as file:
            found = read_findings(file.read())
        problems = [
            f"training data, split {finding.split}: {finding}"
            for finding in found
            if finding.problem not in (MISSING, NAMED)
        ]
        missing = _missing_positives(examples, splits, found)
        gate.set_string_custom_property(
            "missing_positives",
            json.dumps({split: dataclasses.asdict(own) for split, own in missing.items()}),
        )
        return [*problems, *_too_many_missing(missing, settings.max_missing_positives)]


class DataGate(base_beam_component.BaseBeamComponent):
    """Accepts data, or fails with a sentence that names the anomaly and what to do.

    Outputs `gate`, which exists only for data that passed. Data are compared with the latest `gate`, not with
    the latest run. A drift that was refused is therefore not accepted by running again.

    Args:
        training_examples: Judged queries.
        training_statistics: Statistics of the judged queries.
        training_schema: Curated schema of the judged queries.
        training_anomalies: Anomalies that ExampleValidator found in the judged queries.
        corpus_examples: Documents.
        corpus_statistics: Statistics of the documents.
        corpus_schema: Curated schema of the documents.
        corpus_anomalies: Anomalies that ExampleValidator found in the documents.
        previous: The `gate` of the last data that passed, if any.
        thresholds: `GateSettings` as JSON.
        splits: Splits of the training examples to check. Checks all of them if empty.
    """

    SPEC_CLASS = DataGateSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(DataGateExecutor)

    def __init__(
        self,
        training_examples: BaseChannel,
        training_statistics: BaseChannel,
        training_schema: BaseChannel,
        training_anomalies: BaseChannel,
        corpus_examples: BaseChannel,
        corpus_statistics: BaseChannel,
        corpus_schema: BaseChannel,
        corpus_anomalies: BaseChannel,
        previous: BaseChannel | None = None,
        thresholds: str = "{}",
        splits: Sequence[str] = (),
    ) -> None:
        settings_from_json(GateSettings, thresholds)
        super().__init__(
            DataGateSpec(
                training_examples=training_examples,
                training_statistics=training_statistics,
                training_schema=training_schema,
                training_anomalies=training_anomalies,
                corpus_examples=corpus_examples,
                corpus_statistics=corpus_statistics,
                corpus_schema=corpus_schema,
                corpus_anomalies=corpus_anomalies,
                previous=previous,
                thresholds=thresholds,
                splits=json.dumps(list(splits)),
                gate=Channel(type=DataGateArtifact),
            )
        )


def _missing_positives(examples: Artifact, splits: list[str], findings: list[Finding]) -> dict[str, Missing]:
    """Counts judgements without a document by split: in the examples, and left out when they were made."""
    left_out = json.loads(examples.get_string_custom_property(LEFT_OUT) or "{}")
    missing = {}
    for split in splits:
        counts = {own.problem: own for own in findings if own.split == split}
        before = Missing(**left_out[split]) if split in left_out else Missing(0, 0, "")
        named, absent = counts.get(NAMED), counts.get(MISSING)
        missing[split] = Missing(
            before.count + (absent.count if absent else 0),
            before.count + (named.count if named else 0),
            absent.example if absent else before.example,
        )
    return {split: own for split, own in missing.items() if own.count}


def _too_many_missing(missing: dict[str, Missing], limit: float) -> Iterator[str]:
    for split, own in missing.items():
        found = (
            f"training data, split {split}: judgements whose document is not in the corpus: {own.count} of "
            f"{own.judgements} ({own.count / own.judgements:.1%}), such as {own.example}"
        )
        if own.count > limit * own.judgements:
            yield f"{found}; more than `gate.max_missing_positives`, {limit:.1%}"
        else:
            logging.warning("Data gate: %s; left out of the evaluation.", found)


def _problems_of_statistics(inputs: Artifacts, splits: list[str], settings: GateSettings) -> Iterator[str]:
    for kind, name in _KINDS.items():
        threshold = settings.training_drift if kind == "training" else settings.corpus_drift
        schema = io_utils.SchemaReader().read(io_utils.get_only_uri_in_dir(inputs[f"{kind}_schema"].uri))
        for split, statistics in _statistics(inputs[f"{kind}_statistics"]):
            if kind == "training" and split not in splits:
                continue
            (dataset,) = statistics.datasets
            problems = anomaly_sentences(_read_anomalies(inputs[f"{kind}_anomalies"], split), dataset)
            problems += vanished_languages(dataset, schema, settings.min_examples_per_language)
            if previous := _read_previous(inputs.get("previous"), kind, split):
                problems += drifted_languages(statistics, previous, schema, threshold)
            yield from (f"{name}, split {split}: {problem}" for problem in problems)


def _refusal(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more problems, all in the log)" if len(problems) > 1 else ""
    return (
        "The data gate refuses the data; fix them, or change schema or thresholds if the data are right. "
        f"Received: {problems[0]}{more}."
    )


def _statistics(artifact: Artifact) -> Iterator[tuple[str, Any]]:
    for split in _splits(artifact):
        yield split, stats_artifact_utils.load_statistics(artifact, split).proto()


def _read_anomalies(artifact: Artifact, split: str) -> Any:
    folder = artifact_utils.get_split_uri([artifact], split)
    with fileio.open(f"{folder}/{example_validator.DEFAULT_FILE_NAME}", "rb") as content:
        return anomalies_pb2.Anomalies.FromString(content.read())


def _keep_statistics(inputs: Artifacts, splits: list[str], gate: Artifact) -> None:
    """Writes the statistics of the splits that were checked, and copies the previous ones of the others."""
    counts: dict[str, dict[str, float]] = {}
    with local_output(gate.uri) as folder:
        for kind in _KINDS:
            for split, current in _statistics(inputs[f"{kind}_statistics"]):
                looked_at = kind == "corpus" or split in splits
                statistics = current if looked_at else _read_previous(inputs.get("previous"), kind, split)
                if statistics is None:
                    continue
                (folder / _statistics_file(kind, split)).write_bytes(statistics.SerializeToString())
                counts[f"{kind}/{split}"] = language_counts(statistics.datasets[0])
    gate.set_string_custom_property("languages", json.dumps(counts, sort_keys=True))


def _read_previous(gate: Artifact | None, kind: str, split: str) -> Any:
    if gate is None:
        return None
    with local_input(gate.uri) as folder:
        file = folder / _statistics_file(kind, split)
        if not file.is_file():
            return None
        return statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes())


def _statistics_file(kind: str, split: str) -> str:
    return f"{kind}-{split}.pb"


def _splits(artifact: Artifact) -> list[str]:
    return list(artifact_utils.decode_split_names(artifact.split_names))


def _files(examples: Artifact, split: str) -> str:
    return str(io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split)))
