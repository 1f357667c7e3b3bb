"""The content of a report: what was measured as plain data, the same for every form it is written in."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xtr_tf.evaluation.comparison import Difference, compare
from xtr_tf.evaluation.dataset_result import DatasetResult
from xtr_tf.evaluation.report.systems import describe_systems
from xtr_tf.evaluation.settings import EvaluationSettings
from xtr_tf.evaluation.summary import Row, summarise
from xtr_tf.export.model_card import installed_versions

#: Increased when a reader of `report.json` has to change.
FORMAT_VERSION = 1

# What the model is compared with, if it was measured; the first one leads the report.
_OPPONENTS = ("baseline", "bm25", "colbert")


def build_content(
    results: Sequence[DatasetResult],
    settings: EvaluationSettings,
    model: Mapping[str, str],
    baseline: Mapping[str, str] | None,
    seconds: float,
) -> dict[str, Any]:
    """Puts together what a report says.

    Args:
        results: One a dataset.
        settings: Of the evaluation.
        model: `name` and `kind` of the model under test.
        baseline: The same of the model compared with, if any.
        seconds: How long the evaluation took.

    Returns:
        Plain data that JSON can hold; metrics in [0, 1].
    """
    summary = summarise(results, settings.seed)
    measured = [system for result in results for system in result.values]
    systems = describe_systems(measured, settings, model["kind"], baseline["name"] if baseline else None)
    return {
        "format_version": FORMAT_VERSION,
        "created": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "model": dict(model),
        "baseline": dict(baseline) if baseline else None,
        "settings": dataclasses.asdict(settings),
        "systems": [dataclasses.asdict(system) for system in systems],
        "datasets": [
            {**_row(row), **_dataset(result)} for row, result in zip(summary.datasets, results, strict=True)
        ],
        "averages": [{**_row(row), "datasets": len(row.cells)} for row in summary.averages],
        "languages": [{**_row(row), "datasets": len(row.cells)} for row in summary.languages],
        "comparisons": [
            {
                "system": "xtr",
                "other": opponent,
                "datasets": _differences(compare(summary.datasets, "xtr", opponent)),
                "averages": _differences(compare(summary.averages, "xtr", opponent)),
                "languages": _differences(compare(summary.languages, "xtr", opponent)),
            }
            for opponent in _OPPONENTS
            if opponent in measured
        ],
        "examples": [dataclasses.asdict(example) for result in results for example in result.model.examples],
        "seconds": round(seconds, 1),
        "versions": {**installed_versions(), "python": platform.python_version()},
        "machine": _machine(),
    }


def _row(row: Row) -> dict[str, Any]:
    figures: dict[str, dict[str, Any]] = {}
    for (system, metric), figure in row.figures.items():
        figures.setdefault(system, {})[metric] = dataclasses.asdict(figure)
    return {"name": row.name, "metric": row.metric, "queries": row.queries, "figures": figures}


def _dataset(result: DatasetResult) -> dict[str, Any]:
    model = result.model
    return {
        "collection": result.dataset.collection,
        "language": result.dataset.language,
        "documents": result.documents,
        "tokens": model.tokens,
        "depth": result.depth,
        "honesty": dataclasses.asdict(result.honesty),
        "analysis": dataclasses.asdict(model.analysis) if model.analysis else None,
        "exact_check": dataclasses.asdict(model.exact_check) if model.exact_check else None,
        "seconds": {stage: round(spent, 1) for stage, spent in model.seconds.items()},
    }


def _differences(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(own), "verdict": own.verdict} for own in differences]


def _machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}
