"""Thresholds, on hand-written reports."""

from __future__ import annotations

from typing import Any

import pytest

from tfx_pipeline.blessing import judge
from tfx_pipeline.config import QualitySettings
from xtr_tf.errors import InputError

MODEL = {"en": 0.8, "sw": 0.5}
BETTER = {"en": 0.82, "sw": 0.6}


def report(chance: float = 0.0, **systems: dict[str, float]) -> dict[str, Any]:
    """The part of a report that is judged: figures by language, and differences give or take `chance`."""
    return {
        "comparisons": [_comparison(chance, systems)] if "baseline" in systems else [],
        "languages": [
            {
                "name": language,
                "figures": {
                    system: {"nDCG@10": {"value": values[language]}, "MRR@10": {"value": 0.1}}
                    for system, values in systems.items()
                },
            }
            for language in systems["xtr"]
        ],
    }


def _comparison(chance: float, systems: dict[str, dict[str, float]]) -> dict[str, Any]:
    differences = {own: value - systems["baseline"][own] for own, value in systems["xtr"].items()}

    def row(name: str, value: float) -> dict[str, Any]:
        return {"name": name, "value": value, "low": value - chance, "high": value + chance}

    mean = sum(differences.values()) / len(differences)
    return {
        "other": "baseline",
        "shared_documents": 300,
        "languages": [row(*own) for own in differences.items()],
        "language_average": [row("all languages", mean)],
    }


def test_every_model_is_blessed_without_thresholds() -> None:
    verdict = judge(report(xtr=MODEL, bm25=BETTER), QualitySettings())
    assert verdict.blessed
    assert verdict.averages == pytest.approx({"xtr": 0.65, "bm25": 0.71})
    assert verdict.languages == MODEL
    assert verdict.reasons == (
        "The average of nDCG@10 over 2 languages is 0.650, against 0.710 of BM25; the weakest is sw with "
        "0.500.",
    )


def test_a_model_below_an_absolute_threshold_is_not_blessed() -> None:
    verdict = judge(report(xtr=MODEL), QualitySettings(min_average=0.7, min_per_language=0.55))
    assert not verdict.blessed
    assert verdict.reasons == (
        "The average of nDCG@10 over languages is 0.650, below the minimum of 0.700.",
        "nDCG@10 in sw is 0.500, below the minimum of 0.550.",
    )
    assert judge(report(xtr=MODEL), QualitySettings(min_average=0.65, min_per_language=0.5)).blessed


def test_a_model_worse_than_the_latest_blessed_one_is_not_blessed() -> None:
    fallen = judge(report(0.01, xtr=MODEL, baseline=BETTER), QualitySettings(max_language_drop=0.05))
    assert fallen.reasons == (
        "nDCG@10 fell in the average over languages by 0.060 from the latest blessed model's on the 300 "
        "documents that both have (95% interval 0.050 to 0.070), by more than 0.010.",
        "nDCG@10 fell in sw by 0.100 from the latest blessed model's on the 300 documents that both have "
        "(95% interval 0.090 to 0.110), by more than 0.050.",
    )
    lenient = QualitySettings(max_average_drop=0.06, max_language_drop=0.1)
    assert judge(report(xtr=MODEL, baseline=BETTER), lenient).blessed
    strict = QualitySettings(max_average_drop=0.0, max_language_drop=0.0)
    assert judge(report(xtr=MODEL, baseline=MODEL), strict).blessed
    assert judge(report(xtr=BETTER, baseline=MODEL), strict).blessed


def test_a_gain_in_one_language_does_not_offset_a_loss_in_another() -> None:
    judged = report(xtr={"en": 0.95, "sw": 0.5}, baseline={"en": 0.7, "sw": 0.6})
    verdict = judge(judged, QualitySettings(max_language_drop=0.05))
    assert not verdict.blessed
    assert len(verdict.reasons) == 1
    assert "fell in sw" in verdict.reasons[0]


def test_a_drop_within_chance_is_tolerated() -> None:
    settings = QualitySettings(max_average_drop=0.0, max_language_drop=0.0)
    assert judge(report(0.2, xtr=MODEL, baseline=BETTER), settings).blessed
    assert not judge(report(0.09, xtr=MODEL, baseline=BETTER), settings).blessed  # sw fell by 0.1


def test_thresholds_may_name_another_metric() -> None:
    verdict = judge(report(xtr=MODEL), QualitySettings(metric="MRR@10", min_average=0.2))
    assert verdict.reasons == ("The average of MRR@10 over languages is 0.100, below the minimum of 0.200.",)
    with pytest.raises(InputError, match="`metric` must be one of"):
        QualitySettings(metric="accuracy")


def test_the_ranking_that_the_model_returns_by_default_is_judged() -> None:
    content = {**report(xtr=MODEL, fusion=BETTER), "served": "fusion"}
    verdict = judge(content, QualitySettings(min_average=0.7))
    assert verdict.blessed
    assert verdict.languages == BETTER
    assert verdict.averages["xtr"] == verdict.averages["fusion"] == pytest.approx(0.71)
