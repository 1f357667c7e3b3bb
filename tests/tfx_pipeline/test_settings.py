"""Settings of components: reading, writing, and refusing bad ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tfx_pipeline.config import (
    GateSettings,
    QualitySettings,
    ServingCheckSettings,
    load_pipeline_config,
    settings_from_json,
    settings_to_json,
)
from tfx_pipeline.vertex_config import DataflowConfig, VertexConfig, WorkerPool
from xtr_tf.errors import InputError


@pytest.mark.parametrize(
    "settings",
    [
        GateSettings(training_drift=0.2, min_examples_per_language=7),
        QualitySettings(metric="MRR@10", max_language_drop=0.3),
        ServingCheckSettings(latency_ms=20.0),
        VertexConfig(
            training=(WorkerPool(), WorkerPool("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8, replicas=3))
        ),
    ],
)
def test_settings_survive_a_round_trip_through_json(settings: Any) -> None:
    assert settings_from_json(type(settings), settings_to_json(settings)) == settings


def test_a_large_corpus_is_evaluated_without_bm25() -> None:
    from tfx_pipeline.components.retrieval_evaluator import bounded, needs_texts

    settings = QualitySettings(bm25_documents=1000)
    assert bounded(settings, 1000) == (settings, "")
    without, sentence = bounded(settings, 1001)
    assert not without.bm25
    assert "1,001 documents, more than `quality.bm25_documents`, 1,000" in sentence
    assert bounded(without, 1001) == (without, "")
    # Texts are held for BM25, and for the exact search of a small corpus.
    assert needs_texts(settings, 1000)
    assert needs_texts(without, 1001)
    assert not needs_texts(without, 1_000_000)
    assert not needs_texts(dataclasses.replace(without, exact_queries=0), 1001)


def test_an_empty_text_means_the_defaults() -> None:
    assert settings_from_json(GateSettings, "") == GateSettings()
    assert settings_from_json(GateSettings, None) == GateSettings()


@pytest.mark.parametrize("text", ["[]", "{", '"text"', '{"drift": 1}', '{"training_drift": "far"}'])
def test_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="Received: "):
        settings_from_json(GateSettings, text)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (GateSettings, {"training_drift": 0.0}),
        (GateSettings, {"corpus_drift": 1.5}),
        (GateSettings, {"min_examples_per_language": 0}),
        (QualitySettings, {"metric": "Top-20"}),
        (QualitySettings, {"min_average": 40.0}),
        (QualitySettings, {"max_queries": -1}),
        (ServingCheckSettings, {"latency_ms": 0.0}),
        (ServingCheckSettings, {"latency_quantile": 95.0}),
        (ServingCheckSettings, {"rounds": 0}),
        (WorkerPool, {"machine": ""}),
        (WorkerPool, {"accelerator": "TPU_V3"}),
        (WorkerPool, {"accelerator_count": 8}),
        (WorkerPool, {"replicas": 0}),
        (DataflowConfig, {"max_workers": 0}),
        (VertexConfig, {"training": ()}),
        (VertexConfig, {"memory_gb": 0.0}),
    ],
)
def test_impossible_values_are_refused(kind: type, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"`?{next(iter(values))}`?.*Received: "):
        kind(**values)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("serving", "push_directory"),
        ("gate.fewest_examples", "gate.min_examples_per_language"),
        ("quality.least_average", "quality.min_average"),
        ("quality.least_language", "quality.min_per_language"),
        ("quality.average_fall", "quality.max_average_drop"),
        ("quality.language_fall", "quality.max_language_drop"),
        ("serving_check.latency_share", "serving_check.latency_quantile"),
        ("serving_check.start_seconds", "serving_check.load_timeout_seconds"),
        ("vertex.cores", "vertex.cpu_limit"),
    ],
)
def test_an_old_key_is_refused_with_its_new_name(old, new):
    with pytest.raises(InputError, match=rf"^`{old}` is now called `{new}`; rename it\. Received: {old}\.$"):
        load_pipeline_config(None, [f"{old}=1"])


def test_an_old_key_in_a_list_is_refused_with_its_new_name():
    with pytest.raises(InputError, match=r"accelerator_count`; rename it"):
        load_pipeline_config(None, ["vertex.training=[{accelerators: 8}]"])
