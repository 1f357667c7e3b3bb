"""What native libraries write to standard error, as lines of the server's log.

TensorFlow and gRPC have C++ inside that writes text of its own to file descriptor 2, some of it whatever log
level is set. A pipe takes the descriptor's place; at its other end this file runs as a small process, so
that the last output of a crash are not lost with the server. It must not import anything but the standard
library.
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
    """Makes every line on standard error a JSON object, until the process ends.

    Gives the stream for lines that are JSON already. If the body raises, standard error is given back,
    so that the person who started the server reads the reason as it is.
    """
    stream = os.fdopen(os.dup(2), "w", encoding="utf-8")
    command = [sys.executable, "-I", "-S", __file__]
    wrapper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream)
    assert wrapper.stdin is not None
    os.dup2(wrapper.stdin.fileno(), 2)
    # If nobody reads the log, lines are lost and no request waits.
    os.set_blocking(2, False)
    wrapper.stdin.close()
    try:
        yield stream
    except BaseException:
        os.dup2(stream.fileno(), 2)
        wrapper.wait()
        raise


def wrap_lines(lines: BinaryIO, out: BinaryIO) -> None:
    """Writes each line as a JSON object: of the event `tensorflow`, or `stderr` if it does not look so."""
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
    # Signals to the whole group are for the server; this process ends when the server has.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    wrap_lines(sys.stdin.buffer, sys.stdout.buffer)
