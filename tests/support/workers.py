"""Several processes on this machine that TensorFlow takes for the workers of a cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: The longest that workers may take to start, train a little and end, on a machine that does much else.
SECONDS = 400.0


@contextmanager
def started_workers(command: Sequence[str], folder: Path, count: int = 2) -> Iterator[list[subprocess.Popen]]:
    """Starts a command once per worker; what each writes is in `folder/worker_N.log`."""
    cluster = {"worker": [f"localhost:{port}" for port in _free_ports(count)]}
    processes = []
    try:
        for index in range(count):
            place = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            with (folder / f"worker_{index}.log").open("w") as log:
                environment = {**os.environ, "TF_CONFIG": place}
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for(condition: Callable[[], object], processes: Sequence[subprocess.Popen]) -> None:
    """Waits until something is true while the processes run."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes)
        time.sleep(0.02)


def exit_codes(processes: Sequence[subprocess.Popen]) -> list[int]:
    """The processes' exit codes, when all have ended."""
    return [process.wait(timeout=SECONDS) for process in processes]


def logs(folder: Path, count: int = 2) -> list[str]:
    """What each worker wrote."""
    return [(folder / f"worker_{index}.log").read_text() for index in range(count)]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
