"""What every request of every API gets: an id, a place, metrics and a log entry.

Also the log itself, which the rest of the server uses for its events. Knows nothing about models.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import queue
import random
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from serving.server.requests.limits import Admission, Place
from serving.server.requests.metrics import Metrics
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError

REQUEST_ID_HEADER = "x-request-id"
TRACEPARENT_HEADER = "traceparent"
_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?",
    re.ASCII,
)
_ACCEPTABLE_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


@dataclasses.dataclass
class RequestRecord:
    """What is known about a request while it is served.

    Attributes:
        api: `grpc` or `rest`.
        method: Name of the method.
        request_id: Id of the request.
        peer: Returns the address of the caller. Called only if the request is logged.
        model: Name of the model.
        version: Version that answers.
        signature: Signature that is run.
        rows: Number of rows.
        deadline: When the caller stops waiting, on the clock of `time.monotonic`. None if unknown.
        trace: Place in a distributed trace, if any.
    """

    api: str
    method: str
    request_id: str
    peer: Callable[[], str] = str
    model: str = ""
    version: int | None = None
    signature: str = ""
    rows: int = 0
    deadline: float | None = None
    trace: TraceContext | None = None


@dataclasses.dataclass(frozen=True)
class TraceContext:
    """Place of a request in a distributed trace (W3C Trace Context), for OpenTelemetry and others.

    Attributes:
        trace_id: Id of the trace, 32 hexadecimal digits.
        parent_id: Id of the caller's span, 16 hexadecimal digits.
        span_id: Id of this server's span, 16 hexadecimal digits.
        flags: Whether the trace is recorded, two hexadecimal digits.
    """

    trace_id: str
    parent_id: str
    span_id: str
    flags: str

    @classmethod
    def read(cls, traceparent: str | None) -> TraceContext | None:
        """Reads a `traceparent` header. Returns None if it is missing or invalid."""
        found = _TRACEPARENT.fullmatch(traceparent or "")
        if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
            return None
        trace_id, parent_id = found["trace"], found["parent"]
        if not trace_id.strip("0") or not parent_id.strip("0"):
            return None
        return cls(trace_id, parent_id, f"{random.getrandbits(64) or 1:016x}", found["flags"])

    @property
    def header(self) -> str:
        """The `traceparent` header of this server's span, for the answer."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        """Whether the caller records the trace."""
        return bool(int(self.flags, 16) & 1)


class RequestObserver:
    """Admits, counts and logs requests.

    Args:
        admission: Limits the requests in progress.
        metrics: Metrics of the server.
        log: Log of the server.
        models: Model names that may become labels of metrics.
    """

    def __init__(
        self, admission: Admission, metrics: Metrics, log: RequestLog, models: Container[str]
    ) -> None:
        self._admission = admission
        self._metrics = metrics
        self._log = log
        self._models = models

    @contextmanager
    def observe(self, record: RequestRecord) -> Iterator[Place]:
        """Wraps the serving of a request, and turns unexpected exceptions into a `RequestError`.

        Args:
            record: Record of the request.

        Yields:
            The place of the request.

        Raises:
            RequestError: The request failed, or was not admitted.
        """
        started = time.perf_counter()
        code, message, fault = Code.OK, "", False
        try:
            with self._admission.admit() as place:
                yield place
        except RequestError as error:
            code, message = error.code, error.message
            raise
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except Exception as error:
            fault = True
            code, message = Code.INTERNAL, f"The server failed; its log has request {record.request_id}."
            trace = {"trace_id": record.trace.trace_id} if record.trace else {}
            self._log.event("fault", request_id=record.request_id, **trace, error=traceback.format_exc())
            raise RequestError(code, message) from error
        finally:
            seconds = time.perf_counter() - started
            model = record.model if record.model in self._models else ""
            self._metrics.observe_request(record.api, record.method, model, code, seconds)
            recorded = record.trace is not None and record.trace.is_sampled
            if fault or recorded or self._log.picks_request():
                self._write(record, code, message, seconds)

    def _write(self, record: RequestRecord, code: Code, message: str, seconds: float) -> None:
        known = {**vars(record), "peer": record.peer()}
        del known["deadline"]
        if (trace := known.pop("trace")) is not None:
            known |= {
                "trace_id": trace.trace_id,
                "span_id": trace.span_id,
                "parent_span_id": trace.parent_id,
                "trace_flags": trace.flags,
            }
        fields = {name: value for name, value in known.items() if value not in ("", None)}
        if message:
            fields["error"] = message
        self._log.event("request", **fields, code=code.name, milliseconds=round(seconds * 1e3, 3))


def request_id_or_new(given: str | None) -> str:
    """Returns the caller's request id if it is safe to log, otherwise a new one."""
    if given is not None and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(128):032x}"


_MAX_WAITING = 10_000


class RequestLog:
    """Logs all events and a sample of requests, as JSON lines.

    Args:
        sampling: Fraction of requests to log. Faults of the server and requests with a recorded trace are
            always logged.
        stream: Stream to write to. Defaults to standard error.

    Raises:
        InputError: `sampling` is not between 0 and 1.
    """

    def __init__(self, sampling: float = 0.01, stream: TextIO | None = None) -> None:
        if not 0 <= sampling <= 1:
            raise InputError(f"The log's sampling must be between 0 and 1. Received: {sampling}.")
        self._sampling = sampling
        self._stream = stream or sys.stderr
        self._lines: queue.Queue[str | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def event(self, name: str, **fields: Any) -> None:
        """Logs an event.

        Args:
            name: Name of the event.
            **fields: Further fields of the JSON object.
        """
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": name, **fields}, ensure_ascii=False, default=str)
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            return

    def picks_request(self) -> bool:
        """Decides at random whether to log a request."""
        return random.random() < self._sampling  # noqa: S311

    def close(self) -> None:
        """Writes the lines that still wait, for at most a few seconds."""
        try:
            self._lines.put(None, timeout=1)
        except queue.Full:
            return
        self._thread.join(timeout=3)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                continue
