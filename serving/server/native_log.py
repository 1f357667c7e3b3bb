"""Turns what native libraries write to standard error into lines of the server's log.

The C++ code of TensorFlow and gRPC writes plain text to file descriptor 2, some of it at any log level. A
pipe replaces the descriptor. This file runs as a small process at the other end, so that the last lines
before a crash are not lost. It must import only the standard library.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

# `2026-11-17 08:00:00.123456: W tensorflow/...`, or `W0000 00:00:1763366400.123456  42 file.cc:7]`.
_TENSORFLOW = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] |[IWEF]0000 00:00:|WARNING: All log messages"
)


@contextmanager
def structured_standard_error() -> Iterator[TextIO]:
    """Makes every line on standard error a JSON object until the process ends.

    If the body raises, standard error is restored, so that the error is readable.

    Yields:
        The stream to write lines to that are JSON already.
    """
    stream = os.fdopen(os.dup(2), "w", encoding="utf-8")
    command = [sys.executable, "-I", "-S", __file__]
    wrapper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream)
    assert wrapper.stdin is not None
    os.dup2(wrapper.stdin.fileno(), 2)
    # If nobody reads the log, drop lines rather than block requests.
    os.set_blocking(2, False)
    wrapper.stdin.close()
    try:
        yield stream
    except BaseException:
        os.dup2(stream.fileno(), 2)
        wrapper.wait()
        raise


def wrap_lines(lines: BinaryIO, out: BinaryIO) -> None:
    """Writes each line as a JSON object with the event `tensorflow`, or `stderr` if it has another format.

    Args:
        lines: The lines to read.
        out: Where to write the objects, one per line.
    """
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip()
        if not text:
            continue
        event = {
            "time": dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds"),
            "event": "tensorflow" if _TENSORFLOW.match(text) else "stderr",
            "message": text,
        }
        try:
            out.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")
            out.flush()
        except OSError:
            continue


if __name__ == "__main__":
    # Signals to the process group are meant for the server. This process ends after it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    wrap_lines(sys.stdin.buffer, sys.stdout.buffer)
