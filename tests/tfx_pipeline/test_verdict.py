"""Thresholds on reports written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tfx_pipeline.blessing import judge
from tfx_pipeline.config import QualitySettings
from xtr_tf.errors import InputError

MODEL = {"en": 0.8, "sw": 0.5}
BETTER = {"en": 0.82, "sw": 0.6}


def report(**systems: dict[str, float]) -> dict[str, Any]:
    """The part of a report that is judged: figures of systems by language."""
    return {
        "languages": [
            {
                "name": language,
                "figures": {
                    system: {"nDCG@10": {"value": values[language]}, "MRR@10": {"value": 0.1}}
                    for system, values in systems.items()
                },
            }
            for language in systems["xtr"]
        ]
    }


def test_without_thresholds_everything_is_blessed() -> None:
    verdict = judge(report(xtr=MODEL, bm25=BETTER), QualitySettings())
    assert verdict.blessed
    assert verdict.averages == pytest.approx({"xtr": 0.65, "bm25": 0.71})
    assert verdict.languages == MODEL
    assert verdict.reasons == (
        "The average of nDCG@10 over 2 languages is 0.650, against 0.710 of BM25; the weakest is sw with "
        "0.500.",
    )


def test_absolute_thresholds() -> None:
    verdict = judge(report(xtr=MODEL), QualitySettings(min_average=0.7, min_per_language=0.55))
    assert not verdict.blessed
    assert verdict.reasons == (
        "The average of nDCG@10 over languages is 0.650, below the minimum of 0.700.",
        "nDCG@10 in sw is 0.500, below the minimum of 0.550.",
    )
    assert judge(report(xtr=MODEL), QualitySettings(min_average=0.65, min_per_language=0.5)).blessed


def test_thresholds_against_the_latest_blessed_model() -> None:
    fallen = judge(report(xtr=MODEL, baseline=BETTER), QualitySettings(max_language_drop=0.05))
    assert fallen.reasons == (
        "nDCG@10 fell in the average over languages from 0.710 of the latest blessed model to 0.650, by more "
        "than 0.000.",
        "nDCG@10 fell in sw from 0.600 of the latest blessed model to 0.500, by more than 0.050.",
    )
    lenient = QualitySettings(max_average_drop=0.06, max_language_drop=0.1)
    assert judge(report(xtr=MODEL, baseline=BETTER), lenient).blessed
    strict = QualitySettings(max_average_drop=0.0, max_language_drop=0.0)
    assert judge(report(xtr=MODEL, baseline=MODEL), strict).blessed
    assert judge(report(xtr=BETTER, baseline=MODEL), strict).blessed


def test_a_gain_elsewhere_does_not_excuse_a_language() -> None:
    judged = report(xtr={"en": 0.95, "sw": 0.5}, baseline={"en": 0.7, "sw": 0.6})
    verdict = judge(judged, QualitySettings(max_language_drop=0.05))
    assert not verdict.blessed
    assert len(verdict.reasons) == 1
    assert "fell in sw" in verdict.reasons[0]


def test_another_metric() -> None:
    verdict = judge(report(xtr=MODEL), QualitySettings(metric="MRR@10", min_average=0.2))
    assert verdict.reasons == ("The average of MRR@10 over languages is 0.100, below the minimum of 0.200.",)
    with pytest.raises(InputError, match="`metric` must be one of"):
        QualitySettings(metric="accuracy")
