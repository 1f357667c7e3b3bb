"""Runs a configured pipeline on this machine, and reads what came of it from the metadata store."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tfx.orchestration.metadata import sqlite_metadata_connection_config

from tfx_pipeline.config import PipelineConfig, absolute, is_remote
from tfx_pipeline.lineage import METADATA_FILE, Lineage
from tfx_pipeline.pipeline import Dag, create_pipeline
from tfx_pipeline.runners.local import ComponentResult, run_locally
from xtr_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run ended with.

    Attributes:
        components: How each component ended.
        pushed: Directory of the version that was pushed, or "".
        report: The evaluation's `report.html`.
        reasons: Why the model was blessed or not, a sentence each.
    """

    components: tuple[ComponentResult, ...]
    pushed: str
    report: str
    reasons: tuple[str, ...]


def metadata_file(config: PipelineConfig) -> Path:
    """The metadata store of a pipeline that runs here."""
    return Path(absolute(config.root), METADATA_FILE)


def run_pipeline(config: PipelineConfig, dag: Dag = "full") -> Outcome:
    """Runs a pipeline with sqlite metadata.

    Raises:
        InputError: It cannot run here, or a component failed.
    """
    _check(config, dag)
    root = Path(absolute(config.root))
    root.mkdir(parents=True, exist_ok=True)
    store = sqlite_metadata_connection_config(str(metadata_file(config)))
    results = run_locally(create_pipeline(config, dag, store), root)
    return _outcome(config, results)


def _check(config: PipelineConfig, dag: Dag) -> None:
    """Refuses what would fail late."""
    if is_remote(config.root):
        raise InputError(
            "A pipeline runs here under a local root; compile it for a remote one. "
            f"Received: root {config.root!r}."
        )
    for name, folder in (("training_data", config.training_data.folder), ("corpus", config.corpus.folder)):
        if not folder or not (is_remote(folder) or Path(folder).is_dir()):
            raise InputError(f"`{name}.folder` must be a folder that exists. Received: {folder!r}.")
    vocabulary = config.vocabulary
    if not vocabulary or not (is_remote(vocabulary) or Path(vocabulary).is_file()):
        raise InputError(
            "`run.tokenizer.model` must be a SentencePiece file; make one with `xtr-tf tokenizer train`, or "
            f"set `run.training.initial_encoder`. Received: {vocabulary!r}."
        )
    if dag == "refresh" and not _has_blessed_model(config):
        raise InputError(
            "A refresh needs a model that was blessed before; run the full pipeline first. "
            f"Received: root {config.root!r}."
        )


def _has_blessed_model(config: PipelineConfig) -> bool:
    if not metadata_file(config).is_file():
        return False
    blessings = Lineage(metadata_file(config)).artifacts("ModelBlessing")
    return any(blessing.properties.get("blessed") for blessing in blessings)


def _outcome(config: PipelineConfig, results: list[ComponentResult]) -> Outcome:
    lineage = Lineage(metadata_file(config))
    made = {
        record.type: record
        for result in results
        if result.execution_id
        for record in lineage.outputs(result.execution_id)
    }
    reasons = [
        reason
        for kind in ("ModelBlessing", "InfraBlessing")
        for reason in str(made[kind].properties.get("reasons", "")).splitlines()
    ]
    return Outcome(
        components=tuple(results),
        pushed=str(made["PushedModel"].properties.get("pushed_destination", "")),
        report=str(Path(made["ModelEvaluation"].uri, "report.html")),
        reasons=tuple(reasons),
    )
