"""What every request passes through, whichever API it came by: an id, a place, counting, logging."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
import time
import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

from serving.server.limits import Admission
from serving.server.metrics import Metrics
from serving.server.request_log import RequestLog
from serving.server.status import Code, RequestError

REQUEST_ID_HEADER = "x-request-id"
_ACCEPTABLE_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


@dataclasses.dataclass
class RequestRecord:
    """What is known of a request while it is served; who sent it is asked for only if it is logged."""

    api: str
    method: str
    request_id: str
    peer: Callable[[], str] = str
    model: str = ""
    version: int | None = None
    signature: str = ""
    rows: int = 0


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
    def observe(self, record: RequestRecord) -> Iterator[None]:
        """Serves one request inside: every way it can end becomes a `RequestError` or none."""
        started = time.perf_counter()
        code, message, fault = Code.OK, "", False
        try:
            with self._admission.admit():
                yield
        except RequestError as error:
            code, message = error.code, error.message
            raise
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except Exception as error:
            fault = True
            code, message = Code.INTERNAL, f"The server failed; its log has request {record.request_id}."
            self._log.event("fault", request_id=record.request_id, error=traceback.format_exc())
            raise RequestError(code, message) from error
        finally:
            seconds = time.perf_counter() - started
            model = record.model if record.model in self._models else ""
            self._metrics.observe_request(record.api, record.method, model, code, seconds)
            if fault or self._log.picks_request():
                self._write(record, code, message, seconds)

    def _write(self, record: RequestRecord, code: Code, message: str, seconds: float) -> None:
        known = {**vars(record), "peer": record.peer()}
        fields = {name: value for name, value in known.items() if value not in ("", None)}
        if message:
            fields["error"] = message
        self._log.event("request", **fields, code=code.name, milliseconds=round(seconds * 1e3, 3))


def request_id_or_new(given: str | None) -> str:
    """Returns the caller's id for the request if it is one that can be logged, else a new one."""
    if given is not None and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(128):032x}"
