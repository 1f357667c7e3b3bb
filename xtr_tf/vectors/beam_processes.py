"""Beam's direct runner with worker processes, in a separate process that is watched.

Beam's runner waits forever for a worker that was killed, for example because memory ran out. Here, its
process ends when a worker does, and the work is given to new workers. A task skips finished shards (see
`ShardTask`). The process reads a pickled task from its standard input. `python -m` runs this file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xtr_tf.errors import InputError
from xtr_tf.processes import child_environment, die_with_parent
from xtr_tf.vectors.runners import ShardTask

#: How many times the work is attempted, as with Dataflow.
ATTEMPTS = 4
# An exit code that a process does not return by itself.
_WORKER_DIED = 75
# Beam's name for the thread that waits for a worker.
_WAITING = "run_worker"


def run_in_processes(task: ShardTask, shards: Sequence[Any], flags: Sequence[str]) -> None:
    """Runs a pipeline until it has finished, even if some workers are killed.

    Args:
        task: The task to run for each shard. It is defined in a module that workers can import.
        shards: The shards.
        flags: Beam options, as on a command line.

    Raises:
        InputError: If the pipeline failed, or lost workers in every attempt.
    """
    given = pickle.dumps((task, list(shards), list(flags)))
    environment = {**child_environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for _ in range(ATTEMPTS):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as reason:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", __name__, reason.name],
                stdin=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            try:
                process.communicate(given)
            finally:
                _end_group(process)
            if process.returncode == 0:
                return
            if process.returncode != _WORKER_DIED:
                told = reason.read() or f"its process ended with code {process.returncode}"
                raise InputError(
                    f"The Beam pipeline failed ({told}); finished shards are kept, run it again. "
                    f"Received: options {list(flags)}."
                )
        logging.warning("A worker of the Beam pipeline was killed; its work is given to a new one.")
    raise InputError(
        f"Workers of the Beam pipeline were killed {ATTEMPTS} times, perhaps because memory ran "
        f"out; finished shards are kept, run it again with fewer workers. Received: options {list(flags)}."
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all of its workers that are still running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _main(reason: Path) -> None:
    die_with_parent()
    task, shards, flags = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    from xtr_tf.vectors.beam import run_pipeline

    threading.excepthook = _end_with_worker
    try:
        run_pipeline(task, shards, flags)
    except RuntimeError as error:
        reason.write_text(str(error).strip().splitlines()[-1], encoding="utf-8")
        raise SystemExit(1) from None


def _end_with_worker(failed: threading.ExceptHookArgs) -> None:
    if failed.thread is not None and failed.thread.name == _WAITING:
        os._exit(_WORKER_DIED)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
