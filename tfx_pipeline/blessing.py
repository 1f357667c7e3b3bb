"""From the figures of a report to a blessing, or to the reasons against it. Knows nothing of TFX."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tfx.components.evaluator import constants
from tfx.types import Artifact

from tfx_pipeline.config import QualitySettings
from tfx_pipeline.storage import local_output

# Figures are means of float64 values: a difference below this is rounding.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a model is good enough.

    Attributes:
        blessed: Whether it is.
        reasons: Why (not), a sentence each.
        averages: Of the model (`xtr`) and of what it was compared with, over languages.
        languages: The model's figure by language.
    """

    blessed: bool
    reasons: tuple[str, ...]
    averages: Mapping[str, float]
    languages: Mapping[str, float]

    def refused(self, reason: str) -> Verdict:
        """The same figures, but not blessed for a reason that is none of theirs."""
        return dataclasses.replace(self, blessed=False, reasons=(*self.reasons, reason))


def judge(report: Mapping[str, Any], settings: QualitySettings) -> Verdict:
    """Compares a report's figures with the thresholds.

    Args:
        report: What `xtr_tf.evaluation.report.content.build_content` made.
        settings: The thresholds.
    """
    figures = _figures_of_languages(report, settings.metric)
    averages = {system: float(np.mean(list(own.values()))) for system, own in figures.items()}
    failures = [*_too_low(figures["xtr"], averages["xtr"], settings)]
    if "baseline" in figures:
        failures += _fallen(figures, averages, settings)
    reasons = failures or [_praise(figures["xtr"], averages, settings.metric)]
    return Verdict(not failures, tuple(reasons), averages, figures["xtr"])


def _figures_of_languages(report: Mapping[str, Any], metric: str) -> dict[str, dict[str, float]]:
    """Figures by system, then by language."""
    found: dict[str, dict[str, float]] = {}
    for row in report["languages"]:
        for system, figures in row["figures"].items():
            if metric in figures:
                found.setdefault(system, {})[row["name"]] = figures[metric]["value"]
    return found


def _too_low(languages: Mapping[str, float], average: float, settings: QualitySettings) -> list[str]:
    failures = []
    if average < settings.least_average - _ROUNDING:
        failures.append(
            f"The average of {settings.metric} over languages is {average:.3f}, below the least of "
            f"{settings.least_average:.3f}."
        )
    failures += [
        f"{settings.metric} in {language} is {value:.3f}, below the least of {settings.least_language:.3f}."
        for language, value in languages.items()
        if value < settings.least_language - _ROUNDING
    ]
    return failures


def _fallen(
    figures: Mapping[str, Mapping[str, float]], averages: Mapping[str, float], settings: QualitySettings
) -> list[str]:
    places = [("the average over languages", averages["xtr"], averages["baseline"], settings.average_fall)]
    places += [
        (language, value, figures["baseline"][language], settings.language_fall)
        for language, value in figures["xtr"].items()
    ]
    return [
        f"{settings.metric} fell in {place} from {before:.3f} of the latest blessed model to {now:.3f}, "
        f"by more than {allowed:.3f}."
        for place, now, before, allowed in places
        if now < before - allowed - _ROUNDING
    ]


def _praise(languages: Mapping[str, float], averages: Mapping[str, float], metric: str) -> str:
    names = {"baseline": "the latest blessed model", "bm25": "BM25"}
    others = [f"{averages[system]:.3f} of {name}" for system, name in names.items() if system in averages]
    against = f", against {' and '.join(others)}" if others else ""
    worst = min(languages, key=lambda language: languages[language])
    return (
        f"The average of {metric} over {len(languages)} languages is {averages['xtr']:.3f}{against}; "
        f"the weakest is {worst} with {languages[worst]:.3f}."
    )


#: Custom property with one reason a line.
REASONS = "reasons"
REASONS_FILE = "reasons.txt"

_INFRA_FILES = ("INFRA_NOT_BLESSED", "INFRA_BLESSED")
_MODEL_FILES = (constants.NOT_BLESSED_FILE_NAME, constants.BLESSED_FILE_NAME)


def write_model_blessing(
    blessing: Artifact, blessed: bool, reasons: Sequence[str], model: Artifact, baseline: Artifact | None
) -> None:
    """Fills a `ModelBlessing`.

    Args:
        blessing: The artifact.
        blessed: Whether the model may be pushed.
        reasons: Why (not), a sentence each.
        model: Which was judged.
        baseline: Which it was compared with, if any.
    """
    _write(blessing, _MODEL_FILES[blessed], blessed, reasons)
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    if baseline is not None:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)


def write_infra_blessing(blessing: Artifact, blessed: bool, reasons: Sequence[str]) -> None:
    """Fills an `InfraBlessing`."""
    _write(blessing, _INFRA_FILES[blessed], blessed, reasons)


def refusals(blessings: Iterable[Artifact]) -> list[str]:
    """Why models were not blessed, a sentence each; nothing where all were."""
    return [
        reason
        for blessing in blessings
        if not blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY)
        for reason in blessing.get_string_custom_property(REASONS).splitlines()
    ]


def _write(blessing: Artifact, file: str, blessed: bool, reasons: Sequence[str]) -> None:
    with local_output(blessing.uri) as folder:
        Path(folder, REASONS_FILE).write_text("".join(f"{reason}\n" for reason in reasons), encoding="utf-8")
        Path(folder, file).touch()
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed))
    blessing.set_string_custom_property(REASONS, "\n".join(reasons))
