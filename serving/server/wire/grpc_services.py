"""TensorFlow Serving's two gRPC services, as methods from message to message.

Knows the messages and the predictor. `grpc_server` receives and sends them. The REST API builds some of its
answers from the same messages, with functions from here.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from serving.server.models.config import ModelConfig, model_configs_from_proto
from serving.server.models.versions import Version
from serving.server.predictor import Predictor, Target
from serving.server.protos import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_pb2,
)
from serving.server.requests.call import decode_request
from serving.server.requests.observer import RequestRecord
from serving.server.status import Code, RequestError, invalid_argument
from serving.server.tensor_protos import length_delimited, serialize

_SIGNATURE_DEF = "signature_def"


class PredictionService:
    """The service's methods, on messages.

    Args:
        predictor: Runs the requests.
        prefer_tensor_content: Whether numbers are returned as raw content instead of typed fields.
    """

    def __init__(self, predictor: Predictor, prefer_tensor_content: bool = False) -> None:
        self._predictor = predictor
        self._as_content = prefer_tensor_content

    async def predict(self, request: Any, record: RequestRecord) -> bytes:
        """Answers a `PredictRequest`.

        Args:
            request: The message.
            record: Record of the request, for the log and the metrics.

        Returns:
            A serialised `PredictResponse`.

        Raises:
            RequestError: The request is invalid, beyond a limit, or cannot be answered now.
        """
        prediction = await self._predictor.predict(
            Target.from_proto(request), partial(decode_request, request), record
        )
        spec = _spec(prediction.name, prediction.version, prediction.signature)
        # Entries of a map: field 1, with the key in field 1 and the value in field 2.
        entries = [
            length_delimited(
                b"\x0a",
                length_delimited(b"\x0a", name.encode())
                + length_delimited(b"\x12", serialize(array, self._as_content)),
            )
            for name, array in prediction.outputs.items()
        ]
        return b"".join([length_delimited(b"\x12", spec), *entries])

    async def get_model_metadata(self, request: Any, record: RequestRecord) -> Any:
        """Answers a `GetModelMetadataRequest`.

        Args:
            request: The message, which must ask for `signature_def` only.
            record: Record of the request, for the log and the metrics.

        Returns:
            A `GetModelMetadataResponse`.

        Raises:
            RequestError: There is no such model or version, or the message asks for other fields.
        """
        target = Target.from_proto(request)
        if not request.metadata_field:
            raise invalid_argument("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise invalid_argument(f"Metadata field {field} is not supported")
        version, signatures = self._predictor.signature_defs(target, record)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = target.name
        response.model_spec.version.value = version
        response.metadata[_SIGNATURE_DEF].Pack(signature_def_map(signatures))
        return response

    async def unimplemented(self, request: Any, record: RequestRecord) -> Any:
        """Refuses Classify, Regress and MultiInference: a retriever has no `tf.Example` signatures."""
        raise RequestError(Code.UNIMPLEMENTED, f"{record.method} is not implemented; use Predict.")


@functools.lru_cache(maxsize=1024)
def _spec(name: str, version: int, signature: str) -> bytes:
    spec = model_pb2.ModelSpec(name=name, signature_name=signature)
    spec.version.value = version
    serialized: bytes = spec.SerializeToString()
    return serialized


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
        """Answers a `ReloadConfigRequest` once the new configuration has been applied.

        Args:
            request: The message with the whole new configuration.
            record: Record of the request, for the log and the metrics.

        Returns:
            A `ReloadConfigResponse`.
        """
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


def signature_def_map(signatures: Mapping[str, Any]) -> Any:
    """Returns a `SignatureDefMap` of `SignatureDef`s by name."""
    message = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in signatures.items():
        message.signature_def[name].CopyFrom(definition)
    return message
