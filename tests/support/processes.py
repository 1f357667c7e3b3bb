"""Runs the `xtr-tf` command and pieces of Python, in a new process or in this one."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

COMMAND = str(Path(sys.executable).parent / "xtr-tf")
#: A user's variables, for programs of other environments: without those of the tests, and without the one
#: that importing TensorFlow Transform sets, which makes TensorFlow look for Keras 2 in all child processes.
USERS_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL", "TF_USE_LEGACY_KERAS", "PYTHONPATH")
}


def run_command(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs `xtr-tf ARGUMENTS` as a user does, in a new process."""
    return subprocess.run(  # type: ignore[call-overload]
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300, **options
    )


def call_command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `xtr-tf ARGUMENTS` in this process; gives what it printed and its exit code.

    Saves the start of a process and the import of TensorFlow, up to ten seconds. What must hold of a fresh
    process (imports, time to start, noise of other libraries) is tested with `run_command`.
    """
    from xtr_tf.cli import main

    printed, complained = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["xtr-tf", *map(str, arguments)]),
        warnings.catch_warnings(),
        _same_log_levels("absl", "apache_beam", "tensorflow"),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complained),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return subprocess.CompletedProcess(list(arguments), code, printed.getvalue(), complained.getvalue())  # type: ignore[arg-type]


@contextlib.contextmanager
def _same_log_levels(*names: str) -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def run_python(script: str, *arguments: str | Path) -> str:
    """Runs a script in a new process and returns what it printed."""
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout
