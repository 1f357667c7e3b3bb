"""Decides whether a model is blessed: `judge` compares the figures of a report with the thresholds.

`RetrievalEvaluator` measures and calls `judge`. It also refuses models that `ServingValidator` refused
(`components/serving_smoke_test.py` decides that). Pusher pushes models that both have blessed. This file
knows nothing about TFX.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfx_pipeline.config import QualitySettings

# Figures are means of float64 values: a difference below this is rounding.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The decision whether a model is good enough.

    Attributes:
        blessed: Whether the model is good enough.
        reasons: Reasons for the decision, one sentence each.
        averages: Average over languages of the model (`xtr`) and of each system it was compared with.
        languages: Figure of the model by language.
    """

    blessed: bool
    reasons: tuple[str, ...]
    averages: Mapping[str, float]
    languages: Mapping[str, float]

    def refused(self, reason: str) -> Verdict:
        """Returns the same figures, not blessed, with a reason that does not come from the figures."""
        return dataclasses.replace(self, blessed=False, reasons=(*self.reasons, reason))

    def noted(self, remark: str) -> Verdict:
        """Returns the same verdict with a remark for its readers."""
        return dataclasses.replace(self, reasons=(*self.reasons, remark))


def judge(report: Mapping[str, Any], settings: QualitySettings) -> Verdict:
    """Compares the figures of a report with the thresholds.

    Args:
        report: Report content from `xtr_tf.evaluation.report.content.build_content`.
        settings: Thresholds.

    Returns:
        Whether the model is blessed, with reasons.
    """
    figures = _figures_of_languages(report, settings.metric)
    averages = {system: float(np.mean(list(values.values()))) for system, values in figures.items()}
    # The system that the model answers with by default. It may be more than XTR.
    served = report.get("served", "xtr")
    averages["xtr"] = averages[served]
    failures = [*_too_low(figures[served], averages[served], settings)]
    if "baseline" in figures:
        failures += _dropped(report, settings)
    reasons = failures or [_summary(figures[served], averages, settings.metric)]
    return Verdict(not failures, tuple(reasons), averages, figures[served])


def _figures_of_languages(report: Mapping[str, Any], metric: str) -> dict[str, dict[str, float]]:
    """Returns the figures by system, then by language."""
    found: dict[str, dict[str, float]] = {}
    for row in report["languages"]:
        for system, figures in row["figures"].items():
            if metric in figures:
                found.setdefault(system, {})[row["name"]] = figures[metric]["value"]
    return found


def _too_low(languages: Mapping[str, float], average: float, settings: QualitySettings) -> list[str]:
    failures = []
    if average < settings.min_average - _ROUNDING:
        failures.append(
            f"The average of {settings.metric} over languages is {average:.3f}, below the minimum of "
            f"{settings.min_average:.3f}."
        )
    failures += [
        f"{settings.metric} in {language} is {value:.3f}, below the minimum of "
        f"{settings.min_per_language:.3f}."
        for language, value in languages.items()
        if value < settings.min_per_language - _ROUNDING
    ]
    return failures


def _dropped(report: Mapping[str, Any], settings: QualitySettings) -> list[str]:
    """Describes significant drops beyond a margin: the whole 95% interval lies below zero."""
    (against,) = (own for own in report["comparisons"] if own["other"] == "baseline")
    shared = against["shared_documents"]
    where = "" if shared is None else f" on the {shared:,} documents that both have"
    rows = [
        *(
            ("the average over languages", row, settings.max_average_drop)
            for row in against["language_average"]
        ),
        *((row["name"], row, settings.max_language_drop) for row in against["languages"]),
    ]
    return [
        f"{settings.metric} fell in {place} by {-row['value']:.3f} from the latest blessed model's{where} "
        f"(95% interval {-row['high']:.3f} to {-row['low']:.3f}), by more than {allowed:.3f}."
        for place, row, allowed in rows
        if row["value"] < -allowed - _ROUNDING and row["high"] < 0
    ]


def _summary(languages: Mapping[str, float], averages: Mapping[str, float], metric: str) -> str:
    names = {"baseline": "the latest blessed model", "bm25": "BM25"}
    others = [f"{averages[system]:.3f} of {name}" for system, name in names.items() if system in averages]
    against = f", against {' and '.join(others)}" if others else ""
    worst = min(languages, key=lambda language: languages[language])
    return (
        f"The average of {metric} over {len(languages)} languages is {averages['xtr']:.3f}{against}; "
        f"the weakest is {worst} with {languages[worst]:.3f}."
    )
