"""The server's log: one JSON object a line, written by a thread of its own.

A reader that stalls, or a disk that is full, costs log lines and never a request.
"""

from __future__ import annotations

import datetime as dt
import json
import queue
import random
import sys
import threading
from typing import Any, TextIO

from xtr_tf.errors import InputError

_MAX_WAITING = 10_000


class RequestLog:
    """Writes events always, and requests by sampling.

    Args:
        sampling: Share of ordinary requests that are written; the server's own faults always are.
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
