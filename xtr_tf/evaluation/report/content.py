"""The content of a report as plain data, the same for all output formats.

Its keys are the format of `report.json`, which other tools read (`honesty` holds the `DataCaveats`).
Knows nothing about how figures are written or drawn.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xtr_tf.evaluation.evaluator import SHARED, EvaluationSettings
from xtr_tf.evaluation.results import DatasetResult
from xtr_tf.evaluation.summary import Difference, Row, Summary, average_of_languages, compare, summarise
from xtr_tf.retriever.model_card import installed_versions

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
    """Builds the content of a report.

    Args:
        results: One per dataset.
        settings: Settings of the evaluation.
        model: `name` and `kind` of the model under test.
        baseline: The same for the baseline, if there is one.
        seconds: How long the evaluation took.

    Returns:
        Plain data for JSON, with metrics in [0, 1].
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
            *(
                _comparison(summary, "xtr", opponent, measured, results)
                for opponent in _OPPONENTS
                if opponent in measured
            ),
            *(
                _comparison(summary, "fusion", opponent, measured, results)
                for opponent in ("bm25_ngrams", "xtr")
                if {"fusion", opponent} <= set(measured)
            ),
        ],
        "served": results[0].model.served if results else "xtr",
        "examples": [dataclasses.asdict(example) for result in results for example in result.model.examples],
        "seconds": round(seconds, 1),
        "versions": {**installed_versions(), "python": platform.python_version()},
        "machine": _machine(),
    }


def _comparison(
    summary: Summary, name: str, opponent: str, measured: Sequence[str], results: Sequence[DatasetResult]
) -> dict[str, Any]:
    """The model against another system, on the documents that both have if their corpora differ.

    Another model is compared with this one's default answers.
    """
    name = results[0].model.served if opponent == "baseline" else name
    system, other = name, opponent
    shared = None
    if opponent == "baseline" and SHARED["baseline"] in measured:
        system, other = SHARED["xtr"], SHARED["baseline"]
        shared = sum(result.shared_documents or 0 for result in results)
    return {
        "system": name,
        "other": opponent,
        "shared_documents": shared,
        "datasets": _differences(compare(summary.datasets, system, other)),
        "averages": _differences(compare(summary.averages, system, other)),
        "languages": _differences(compare(summary.languages, system, other)),
        "language_average": _differences(compare([average_of_languages(summary)], system, other)),
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
        "honesty": dataclasses.asdict(result.caveats),
        "analysis": dataclasses.asdict(model.analysis) if model.analysis else None,
        "exact_check": dataclasses.asdict(model.exact_check) if model.exact_check else None,
        "seconds": {stage: round(spent, 1) for stage, spent in model.seconds.items()},
    }


def _differences(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(difference), "verdict": difference.verdict} for difference in differences]


def _machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}


@dataclasses.dataclass(frozen=True)
class System:
    """A system that was measured.

    Attributes:
        key: The key, as in `Evaluator`.
        label: A short name.
        description: A phrase that describes it.
    """

    key: str
    label: str
    description: str


def describe_systems(
    keys: Iterable[str], settings: EvaluationSettings, model_kind: str, baseline_name: str | None
) -> list[System]:
    """Labels and descriptions of the systems that were measured, in the order of tables.

    Args:
        keys: Keys of the systems that were measured.
        settings: Settings of the evaluation.
        model_kind: The kind of model that was tested.
        baseline_name: Name of the baseline, if there is one.
    """
    known = [
        System("xtr", "XTR", f"the model under f_XTR′, k′ = {settings.k_prime:,} ({model_kind})"),
        System("colbert", "ColBERT scoring", "the same encoder under f_ColBERT, every token compared"),
        System("baseline", baseline_name or "baseline", "the model compared with, under f_XTR′"),
        System(
            "bm25",
            "BM25 by language",
            "by words, or by character n-grams in languages written without spaces",
        ),
        System("bm25_words", "BM25 words", "words, no stemming, k1 = 0.9, b = 0.4"),
        System("bm25_ngrams", "BM25 n-grams", "character n-grams, k1 = 0.9, b = 0.4"),
        System("fusion", "XTR + BM25", "hybrid: f_XTR′ and BM25 in one score, weighted by alpha"),
    ]
    measured = set(keys)
    return [system for system in known if system.key in measured]
