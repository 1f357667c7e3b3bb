"""TensorFlow Serving's REST API: paths, methods and JSON, on top of the same predictor as gRPC."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from google.protobuf.json_format import MessageToDict

from serving.server.predictor import Predictor, Target
from serving.server.protos import model_pb2
from serving.server.requests import metrics
from serving.server.requests.call import DEFAULT_SIGNATURE, ModelCall, Signatures, check_arrays
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import (
    REQUEST_ID_HEADER,
    TRACEPARENT_HEADER,
    RequestObserver,
    RequestRecord,
    TraceContext,
    request_id_or_new,
)
from serving.server.status import Code, RequestError, invalid_argument
from serving.server.wire.credentials import Access
from serving.server.wire.grpc_services import signature_def_map, status_response
from serving.server.wire.http_server import HttpRequest, HttpResponse
from serving.server.wire.json_tensors import decode_inputs, encode_outputs, parse_body

_MODEL = (
    r"(?i:/v1/models)/(?P<name>[^/:]+)(?:(?i:/versions)/(?P<version>\d+)|(?i:/labels)/(?P<label>[^/:]+))?"
)
_PREDICTION = re.compile(_MODEL + r":(?P<method>(?i:classify|regress|predict))", re.ASCII)
_STATUS = re.compile(_MODEL + r"(?P<metadata>/(?i:metadata))?", re.ASCII)
_MAX_VERSION = 2**63 - 1
# Includes fields with their default value. The option was renamed in protobuf 5.
_WITH_DEFAULTS: dict[str, Any] = {
    name: True
    for name in ("including_default_value_fields", "always_print_fields_with_no_presence")
    if name in inspect.signature(MessageToDict).parameters
}

#: Answers the requests for one path.
Route = Callable[[HttpRequest, RequestRecord], Awaitable[HttpResponse]]


class RestApi:
    """Answers HTTP requests.

    Args:
        predictor: Runs the requests.
        observer: Admits, counts and logs requests.
        access: Who may use the server.
        metrics: Metrics, served under `/monitoring/prometheus/metrics`.
        timeout_seconds: Time after which a request fails with DEADLINE_EXCEEDED.
        strict_json: Whether to write `null` for numbers that are not finite.
        pages: Fixed pages by path. They contain no data and are open to all.
        routes: Further endpoints for POST by path.
    """

    def __init__(
        self,
        predictor: Predictor,
        observer: RequestObserver,
        access: Access,
        metrics: Metrics,
        timeout_seconds: float,
        strict_json: bool = False,
        pages: Mapping[str, HttpResponse] | None = None,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        self._predictor = predictor
        self._observer = observer
        self._access = access
        self._metrics = metrics
        self._timeout = timeout_seconds
        self._strict = strict_json
        self._pages = pages or {}
        self._routes = routes or {}

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answers a request. Never raises.

        Args:
            request: The request.

        Returns:
            The answer, or an error as JSON.
        """
        page = self._pages.get(request.path.partition("?")[0])
        if page is not None and request.method == "GET":
            return page
        request_id = request_id_or_new(request.headers.get(REQUEST_ID_HEADER))
        # The method becomes a label of metrics, and clients can send any method.
        method = request.method if request.method in ("GET", "POST") else "other"
        trace = TraceContext.read(request.headers.get(TRACEPARENT_HEADER))
        record = RequestRecord("rest", method, request_id, lambda: request.peer, trace=trace)
        record.deadline = time.monotonic() + self._timeout
        try:
            with self._observer.observe(record) as place:
                place.hold(len(request.body))
                response = await self._answer_in_time(request, record)
        except RequestError as error:
            response = HttpResponse(render_error(error.message), error.code.http)
        return HttpResponse(
            *(response.body, response.status, response.content_type),
            (
                *response.headers,
                (REQUEST_ID_HEADER, request_id),
                *(((TRACEPARENT_HEADER, trace.header),) if trace is not None else ()),
            ),
        )

    async def _answer_in_time(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        self._access.check(request.headers.get("authorization"))
        try:
            return await asyncio.wait_for(self._dispatch(request, record), self._timeout)
        except asyncio.TimeoutError:
            raise RequestError(Code.DEADLINE_EXCEEDED, "The request was not answered in time.") from None

    async def _dispatch(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        path = request.path.partition("?")[0]
        if path in self._routes:
            record.method = path.rpartition("/")[2]
            if request.method != "POST":
                refused = render_error(f"{path} accepts only POST. Received: {request.method:.20}.")
                return HttpResponse(refused, 405, headers=(("allow", "POST"),))
            return await self._routes[path](request, record)
        if request.method == "POST":
            if match := _PREDICTION.fullmatch(path):
                record.method = match["method"].lower()
                return await self._predict(_target(match), request, record)
        elif request.method == "GET":
            if path == metrics.PATH:
                record.method = "metrics"
                return HttpResponse(self._metrics.page(), content_type=metrics.CONTENT_TYPE)
            if match := _STATUS.fullmatch(path):
                record.method = "metadata" if match["metadata"] else "status"
                target = _target(match)
                show = self._metadata if match["metadata"] else self._status
                return HttpResponse(_pretty(show(target, record)))
        raise invalid_argument(f"Malformed request: {request.method} {path}")

    async def _predict(self, target: Target, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        if record.method != "predict":
            raise RequestError(Code.UNIMPLEMENTED, f"{record.method} is not implemented; use predict.")
        document = parse_body(request.body)
        row_format = False

        def decode(session: Signatures, max_elements: int) -> ModelCall:
            nonlocal row_format
            name = document.get("signature_name") or DEFAULT_SIGNATURE
            signature = session.signatures.get(name)
            if signature is None:
                raise invalid_argument(f'Serving signature name: "{name}" not found in signature def')
            arrays, row_format = decode_inputs(document, signature)
            return ModelCall(signature, check_arrays(signature, arrays), tuple(signature.outputs))

        prediction = await self._predictor.predict(target, decode, record)
        return HttpResponse(encode_outputs(prediction.outputs, row_format, self._strict))

    def _status(self, target: Target, record: RequestRecord) -> dict[str, Any]:
        return _to_dict(status_response(self._predictor.states(target, record)))

    def _metadata(self, target: Target, record: RequestRecord) -> dict[str, Any]:
        version, signatures = self._predictor.signature_defs(target, record)
        spec = model_pb2.ModelSpec(name=target.name)
        spec.version.value = version
        signature_map = _to_dict(signature_def_map(signatures))
        return {"model_spec": _to_dict(spec), "metadata": {"signature_def": signature_map}}


def render_error(message: str) -> bytes:
    """Returns the body of an error."""
    return _pretty({"error": message})


def _target(match: re.Match[str]) -> Target:
    version = match["version"]
    if version is not None and int(version[:20]) > _MAX_VERSION:
        raise invalid_argument(f"Failed to convert version: {version} to numeric.")
    label = match["label"]
    return Target(
        unquote(match["name"]),
        int(version) if version is not None else None,
        unquote(label) if label is not None else None,
    )


def _to_dict(message: Any) -> dict[str, Any]:
    document: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True, **_WITH_DEFAULTS)
    return document


def _pretty(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
