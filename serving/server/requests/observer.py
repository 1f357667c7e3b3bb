"""What every request passes through, whichever API it came by: an id, a place, counting, logging.

Also the log itself, which the rest of the server writes its events to. Knows nothing of models.
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
    """What is known of a request while it is served; who sent it is asked for only if it is logged.

    The deadline is a monotonic time, if the caller gave one.
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
    """Where a request belongs in a trace that OpenTelemetry or others follow (W3C Trace Context).

    Attributes:
        trace_id: Of the whole trace, 32 hexadecimal digits.
        parent_id: Of the caller's span, 16 digits.
        span_id: Of what this server does for the request.
        flags: Whether the trace is being recorded, two digits.
    """

    trace_id: str
    parent_id: str
    span_id: str
    flags: str

    @classmethod
    def read(cls, traceparent: str | None) -> TraceContext | None:
        """Reads a `traceparent` header; None if there is none, or none that is valid."""
        found = _TRACEPARENT.fullmatch(traceparent or "")
        if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
            return None
        trace_id, parent_id = found["trace"], found["parent"]
        if not trace_id.strip("0") or not parent_id.strip("0"):
            return None
        return cls(trace_id, parent_id, f"{random.getrandbits(64) or 1:016x}", found["flags"])

    @property
    def header(self) -> str:
        """The `traceparent` of this server's span, for the answer."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        """Whether the caller records the trace."""
        return bool(int(self.flags, 16) & 1)


class RequestObserver:
    """Wraps the serving of requests.

    Args:
        admission: Places for requests.
        metrics: Where they are counted.
        log: Where they are written.
        models: Names that may become a metric's label.
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
        """Serves one request inside: every way it can end becomes a `RequestError` or none."""
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
    """Returns the caller's id for the request if it is one that can be logged, else a new one."""
    if given is not None and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(128):032x}"


_MAX_WAITING = 10_000


class RequestLog:
    """Writes events always, and requests by sampling.

    Args:
        sampling: Share of ordinary requests that are written; the server's own faults always are, and
            requests whose callers record a trace of them.
        stream: Where to; standard error by default.
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
        """Writes something that happened to the server."""
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": name, **fields}, ensure_ascii=False, default=str)
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            return

    def picks_request(self) -> bool:
        """Whether chance picks this request to be written."""
        return random.random() < self._sampling  # noqa: S311

    def close(self) -> None:
        """Writes what is waiting, for a few seconds at most."""
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
