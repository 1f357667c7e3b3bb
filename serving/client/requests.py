"""What the clients share: everything but waiting."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from .client_error import ClientError
from .messages import MESSAGES, Value, fill_tensor
from .search_options import SearchOptions

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 2.0


class Requests:
    """A client's settings, the messages it sends, and when it tries again.

    Args:
        target: `host:port`.
        model: The model's name.
        version: A version of it, the latest if None.
        label: A version by its label instead.
        timeout: Seconds that a call may take, all attempts together.
        attempts: How often a call is tried while the server is UNAVAILABLE; nothing else is retried.
        credentials: TLS (see `tls_credentials`); None for plain text.
        token: Bearer token.
        batch_size: Queries sent in one message.
    """

    def __init__(
        self,
        target: str,
        model: str = "default",
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 10.0,
        attempts: int = 5,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        batch_size: int = 64,
    ) -> None:
        if version is not None and label is not None:
            raise ValueError("A client asks for a version or a label, not both.")
        self.target = target
        self._model = (model, version, label)
        self._timeout = timeout
        self._attempts = attempts
        self._credentials = credentials
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._batch_size = batch_size

    def predict_request(self, signature: str, inputs: Mapping[str, Value]) -> bytes:
        """Returns the message that runs a signature."""
        request = MESSAGES["PredictRequest"]()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            fill_tensor(request.inputs[name], value)
        serialized: bytes = request.SerializeToString()
        return serialized

    def status_request(self) -> bytes:
        """Returns the message that asks for the states of the versions."""
        request = MESSAGES["GetModelStatusRequest"]()
        self._fill(request.model_spec)
        serialized: bytes = request.SerializeToString()
        return serialized

    def _fill(self, spec: Any) -> None:
        spec.name, version, label = self._model
        if version is not None:
            spec.version.value = version
        if label is not None:
            spec.version_label = label

    def searches(
        self, queries: Sequence[str], options: SearchOptions | None, signature: str | None
    ) -> Iterator[tuple[Sequence[str], bytes]]:
        """Yields the messages for some queries, as many as it takes."""
        inputs = options.inputs() if options is not None else {}
        signature = signature or ("search" if inputs else "serving_default")
        for start in range(0, len(queries), self._batch_size):
            part = queries[start : start + self._batch_size]
            yield part, self.predict_request(signature, {"query": list(part), **inputs})

    def delay(self, error: grpc.RpcError, attempt: int, deadline: float) -> float:
        """Returns how long to wait before the next attempt, or raises if there is to be none."""
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311
        may_pass = error.code() is grpc.StatusCode.UNAVAILABLE and attempt + 1 < self._attempts
        if not may_pass or time.monotonic() + delay >= deadline:
            raise ClientError(error.code(), error.details() or "no reason was given") from None
        return delay
