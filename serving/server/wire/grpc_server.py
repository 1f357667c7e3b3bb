"""The gRPC server: both services, health checks and reflection on one port.

Handlers receive and return raw bytes, so that messages that cannot be parsed get a normal error.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from serving.server.protos import (
    MODEL_SERVICE,
    PREDICTION_SERVICE,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    predict_pb2,
)
from serving.server.requests.limits import Limits
from serving.server.requests.observer import (
    REQUEST_ID_HEADER,
    TRACEPARENT_HEADER,
    RequestObserver,
    RequestRecord,
    TraceContext,
    request_id_or_new,
)
from serving.server.status import Code, RequestError
from serving.server.wire.credentials import Access
from serving.server.wire.grpc_services import ModelService, PredictionService
from serving.server.wire.receiving import Receiver
from xtr_tf.errors import InputError

Method = Callable[[Any, RequestRecord], Awaitable[Any]]
_HEALTH = "/grpc.health.v1.Health/"
_RELOAD = "HandleReloadConfigRequest"


class GrpcServer:
    """TensorFlow Serving's gRPC services.

    Args:
        prediction: Methods of the prediction service.
        models: Methods of the model service.
        observer: Admits, counts and logs requests.
        access: Who may use the server. Health checks are open to all.
        limits: Limits of messages.
        credentials: TLS credentials, or None for plain text.
    """

    def __init__(
        self,
        prediction: PredictionService,
        models: ModelService,
        observer: RequestObserver,
        access: Access,
        limits: Limits,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._observer = observer
        self._access = access
        self._receiver = Receiver(max(16, limits.max_total_bytes // limits.max_message_bytes))
        self._credentials = credentials
        self._health = health_aio.HealthServicer()
        self._server = grpc.aio.server(
            interceptors=(_TokenInterceptor(access),) if access.tokens.required else (),
            options=(
                ("grpc.max_receive_message_length", limits.max_message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", 10_000),
                # Detect peers that have disappeared and close their connections.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.max_concurrent_streams", 4 * limits.max_concurrent),
                ("grpc.max_metadata_size", 16 << 10),
                # Make clients reconnect now and then, so that they find new servers.
                ("grpc.max_connection_age_ms", 600_000),
                ("grpc.max_connection_age_grace_ms", 600_000),
            ),
        )
        self._add_service(
            PREDICTION_SERVICE,
            {
                "Predict": (prediction.predict, predict_pb2.PredictRequest),
                "GetModelMetadata": (
                    prediction.get_model_metadata,
                    get_model_metadata_pb2.GetModelMetadataRequest,
                ),
                "Classify": (prediction.unimplemented, None),
                "Regress": (prediction.unimplemented, None),
                "MultiInference": (prediction.unimplemented, None),
            },
        )
        self._add_service(
            MODEL_SERVICE,
            {
                "GetModelStatus": (models.get_model_status, get_model_status_pb2.GetModelStatusRequest),
                _RELOAD: (
                    models.handle_reload_config,
                    model_management_pb2.ReloadConfigRequest,
                ),
            },
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        services = (PREDICTION_SERVICE, MODEL_SERVICE, "grpc.health.v1.Health")
        reflection.enable_server_reflection((*services, reflection.SERVICE_NAME), self._server)

    async def start(self, host: str, port: int) -> int:
        """Opens the port.

        Args:
            host: Address to bind.
            port: Port to open. 0 chooses a free one.

        Returns:
            The port.

        Raises:
            InputError: The port cannot be opened.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._credentials is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, self._credentials)
        except RuntimeError:
            raise InputError(
                f"The gRPC port cannot be opened; choose another. Received: {address}."
            ) from None
        await self.set_health(False)
        await self._server.start()
        return int(bound)

    async def set_health(self, serving: bool) -> None:
        """Sets whether health checks answer SERVING or NOT_SERVING."""
        kind = health_pb2.HealthCheckResponse
        status = kind.SERVING if serving else kind.NOT_SERVING
        for service in ("", PREDICTION_SERVICE, MODEL_SERVICE):
            await self._health.set(service, status)

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new requests and waits up to `grace_seconds` for those in progress."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)

    def _add_service(self, service: str, methods: dict[str, tuple[Method, Any]]) -> None:
        handlers = {
            # Unary for clients. Here it is a stream, so that the message is received only on request.
            name: grpc.stream_unary_rpc_method_handler(self._handler(name, method, request_type))
            for name, (method, request_type) in methods.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    def _handler(self, name: str, method: Method, request_type: Any) -> Callable[..., Awaitable[bytes]]:
        async def handle(_: object, context: grpc.aio.ServicerContext) -> bytes:
            metadata = dict(context.invocation_metadata() or ())
            given = metadata.get(REQUEST_ID_HEADER)
            trace = TraceContext.read(metadata.get(TRACEPARENT_HEADER))
            left = context.time_remaining()
            record = RequestRecord("grpc", name, request_id_or_new(given), context.peer, trace=trace)
            record.deadline = None if left is None else time.monotonic() + left
            trailers: tuple[tuple[str, str], ...] = ((REQUEST_ID_HEADER, record.request_id),)
            if trace is not None:
                trailers = (*trailers, (TRACEPARENT_HEADER, trace.header))
            try:
                raw = await self._receiver.receive(context)
                with self._observer.observe(record) as place:
                    place.hold(len(raw))
                    if name == _RELOAD:
                        self._access.check_admin(metadata.get("authorization"))
                    response = await method(_parse(request_type, raw), record)
                    # Callers that sent no id need none back, unless there is an error.
                    if given is not None or trace is not None:
                        context.set_trailing_metadata(trailers)
                    if isinstance(response, bytes):
                        return response
                    serialized: bytes = response.SerializeToString()
                    return serialized
            except RequestError as error:
                await context.abort(error.code.grpc, error.message, trailers)
                raise  # never reached: abort raises

        return handle


class _TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses requests without a valid token before they are handled."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        if details.method.startswith(_HEALTH):
            return await continuation(details)
        metadata = dict(details.invocation_metadata or ())
        try:
            self._access.check(metadata.get("authorization"))
        except RequestError as error:
            return grpc.stream_unary_rpc_method_handler(_refusal(error))
        return await continuation(details)


def _refusal(error: RequestError) -> Callable[..., Awaitable[bytes]]:
    async def refuse(_: object, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(error.code.grpc, error.message)
        raise error

    return refuse


def _parse(request_type: Any, raw: bytes) -> Any:
    if request_type is None:
        return raw
    try:
        return request_type.FromString(raw)
    except DecodeError:
        # gRPC requires this code for messages that cannot be parsed.
        name = request_type.DESCRIPTOR.name
        raise RequestError(Code.INTERNAL, f"The message is not a {name}.") from None
