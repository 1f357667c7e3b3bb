"""The terminal and the folder of a run: output goes to a log, and only one run uses the folder at a time.

Python's loggers, `print`, and C++ output on the file descriptors all go to the log. The user sees only the
console that `quiet` yields. Knows nothing about TFX.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

from rich.console import Console

from xtr_tf.errors import InputError


@contextmanager
def quiet(log: Path) -> Iterator[Console]:
    """Redirects standard output and standard error to a log.

    Args:
        log: The log file. Output is appended.

    Yields:
        A console on the real standard output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    terminal, error = os.dup(1), os.dup(2)
    with (
        log.open("a", encoding="utf-8", buffering=1) as file,
        os.fdopen(os.dup(terminal), "w", encoding="utf-8") as visible,
        redirect_stdout(file),
        redirect_stderr(file),
        _root_logger(file),
    ):
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield Console(file=visible, highlight=False)
        finally:
            os.dup2(terminal, 1)
            os.dup2(error, 2)
            os.close(terminal)
            os.close(error)


@contextmanager
def _root_logger(file: TextIO) -> Iterator[None]:
    """Makes `file` the only output of Python's loggers."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    handler = logging.StreamHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


@contextmanager
def run_lock(root: Path) -> Iterator[None]:
    """Locks the root of a pipeline for one run.

    Args:
        root: Folder of the pipeline. Created if it does not exist.

    Raises:
        InputError: Another process runs a pipeline there.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InputError(
                f"Another run uses this pipeline root; wait for it to end or choose another root. "
                f"Received: {root}, in use by process {file.read().strip() or 'unknown'}."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
