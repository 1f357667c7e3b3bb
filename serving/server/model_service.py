"""`tensorflow.serving.ModelService`: which versions there are, and changing the configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from serving.server.model_config import ModelConfig, model_configs_from_proto
from serving.server.model_versions import Version
from serving.server.predictor import Predictor, Target
from serving.server.protos import get_model_status_pb2, model_management_pb2
from serving.server.request_observer import RequestRecord


class ModelService:
    """The service's methods, on messages.

    Args:
        predictor: Knows the models.
        apply: Replaces the configuration.
    """

    def __init__(
        self, predictor: Predictor, apply: Callable[[Sequence[ModelConfig]], Awaitable[None]]
    ) -> None:
        self._predictor = predictor
        self._apply = apply

    async def get_model_status(self, request: Any, record: RequestRecord) -> Any:
        """Answers a `GetModelStatusRequest`."""
        return status_response(self._predictor.states(Target.from_proto(request), record))

    async def handle_reload_config(self, request: Any, record: RequestRecord) -> Any:
        """Answers a `ReloadConfigRequest` once the configuration has been carried out."""
        await self._apply(model_configs_from_proto(request.config))
        response = model_management_pb2.ReloadConfigResponse()
        response.status.error_code = 0
        return response


def status_response(versions: Sequence[Version]) -> Any:
    """Returns a `GetModelStatusResponse`, newest version first."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in reversed(versions):
        status = response.model_version_status.add(version=version.number, state=int(version.state))
        # Set even where it is 0, as TensorFlow Serving does, so that the field is present.
        status.status.error_code = 0 if version.error is None else int(version.error.code)
        if version.error is not None:
            status.status.error_message = version.error.message
    return response
