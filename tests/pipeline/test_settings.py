"""Settings of components: read, written, and refused."""

from __future__ import annotations

from typing import Any

import pytest

from tfx_pipeline.components.settings import settings_from_json, settings_to_json
from tfx_pipeline.config import GateSettings, QualitySettings, ServingCheckSettings
from tfx_pipeline.vertex_config import DataflowConfig, VertexConfig, WorkerPool
from xtr_tf.errors import InputError


@pytest.mark.parametrize(
    "settings",
    [
        GateSettings(training_drift=0.2, fewest_examples=7),
        QualitySettings(metric="MRR@10", language_fall=0.3),
        ServingCheckSettings(latency_ms=20.0),
        VertexConfig(
            training=(WorkerPool(), WorkerPool("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8, replicas=3))
        ),
    ],
)
def test_settings_survive_json(settings: Any) -> None:
    assert settings_from_json(type(settings), settings_to_json(settings)) == settings


def test_no_text_gives_the_defaults() -> None:
    assert settings_from_json(GateSettings, "") == GateSettings()
    assert settings_from_json(GateSettings, None) == GateSettings()


@pytest.mark.parametrize("text", ["[]", "{", '"text"', '{"drift": 1}', '{"training_drift": "far"}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="Received: "):
        settings_from_json(GateSettings, text)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (GateSettings, {"training_drift": 0.0}),
        (GateSettings, {"corpus_drift": 1.5}),
        (GateSettings, {"fewest_examples": 0}),
        (QualitySettings, {"metric": "Top-20"}),
        (QualitySettings, {"least_average": 40.0}),
        (QualitySettings, {"max_queries": -1}),
        (ServingCheckSettings, {"latency_ms": 0.0}),
        (ServingCheckSettings, {"latency_share": 95.0}),
        (ServingCheckSettings, {"rounds": 0}),
        (WorkerPool, {"machine": ""}),
        (WorkerPool, {"accelerator": "TPU_V3"}),
        (WorkerPool, {"accelerators": 8}),
        (WorkerPool, {"replicas": 0}),
        (DataflowConfig, {"max_workers": 0}),
        (VertexConfig, {"training": ()}),
        (VertexConfig, {"memory_gb": 0.0}),
    ],
)
def test_impossible_values_are_refused(kind: type, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"`?{next(iter(values))}`?.*Received: "):
        kind(**values)
