"""ServingValidator: does an exported model load, answer and stay fast enough under a real server?

Needs neither Docker nor Kubernetes: the model is loaded as TensorFlow Serving loads it, and served
by `xtr-tf serve`.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from typing import Any

from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import BaseChannel, Channel, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import path_utils

from tfx_pipeline.artifacts import write_infra_blessing
from tfx_pipeline.components.collection_push import is_collection, read_remote
from tfx_pipeline.components.executor import Artifacts, SingleArtifacts
from tfx_pipeline.components.serving_smoke_test import (
    ServingSmokeTest,
    run_collection_test,
    run_smoke_test,
)
from tfx_pipeline.config import ServingCheckSettings, settings_from_json
from tfx_pipeline.storage import local_input, local_output
from xtr_tf.errors import InputError

_RESULT_FILE = "trial.json"


class ServingValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of `ServingValidator`."""

    INPUTS = {"model": ChannelParameter(type=standard_artifacts.Model)}  # noqa: RUF012
    OUTPUTS = {"blessing": ChannelParameter(type=standard_artifacts.InfraBlessing)}  # noqa: RUF012
    PARAMETERS = {"parameters": ExecutionParameter(type=str)}  # noqa: RUF012


class ServingValidatorExecutor(SingleArtifacts, base_executor.BaseExecutor):
    """Serves the model, sends it requests, and decides whether to bless it."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX."""
        settings = settings_from_json(ServingCheckSettings, properties["parameters"])
        model = inputs["model"]
        blessing = outputs["blessing"]
        test = _test(path_utils.serving_model_path(model.uri), settings)
        with local_output(blessing.uri) as folder:
            text = json.dumps(dataclasses.asdict(test), indent=2, ensure_ascii=False)
            (folder / _RESULT_FILE).write_text(f"{text}\n", encoding="utf-8")
        write_infra_blessing(blessing, not test.problems, test.problems or [_summary(test, settings)])
        if test.latency_ms is not None:
            blessing.set_float_custom_property("latency_ms", test.latency_ms)


class ServingValidator(base_component.BaseComponent):
    """Verifies that a model can be served.

    Outputs `blessing`, an InfraBlessing that Pusher understands, with the reasons.

    Args:
        model: The exported model, a SavedModel in `Format-Serving` with its reference answers, or a
            collection of them.
        parameters: `ServingCheckSettings` as JSON.
    """

    SPEC_CLASS = ServingValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(ServingValidatorExecutor)

    def __init__(self, model: BaseChannel, parameters: str = "{}") -> None:
        settings_from_json(ServingCheckSettings, parameters)
        super().__init__(
            ServingValidatorSpec(
                model=model, parameters=parameters, blessing=Channel(type=standard_artifacts.InfraBlessing)
            )
        )


def _test(uri: str, settings: ServingCheckSettings) -> ServingSmokeTest:
    if not is_collection(uri):
        with local_input(uri) as directory:
            return run_smoke_test(directory, settings)
    try:
        collection = read_remote(uri)
    except InputError as error:
        return ServingSmokeTest((str(error),))
    return run_collection_test(collection, lambda path: local_input(posixpath.join(uri, path)), settings)


def _summary(test: ServingSmokeTest, settings: ServingCheckSettings) -> str:
    return (
        f"The model loaded in {test.load_seconds:.1f} s and gave the exporter's {test.answers} answers "
        f"over gRPC; {settings.latency_quantile:.0%} of queries took at most {test.latency_ms:.0f} ms."
    )
