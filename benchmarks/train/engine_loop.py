"""The worker side of the benchmark: makes and times updates on command. Runs in both environments.

A worker reads one JSON command per line from standard input and answers with one line. Between
commands it sleeps, so that the other engine has the machine to itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

Batches = Sequence[tuple[np.ndarray, np.ndarray]]


def read_batches(path: str) -> Batches:
    """The pairs of `[B, n]` query ids and `[B, m]` document ids of a file."""
    with np.load(path) as file:
        return [(file[f"queries_{i}"], file[f"documents_{i}"]) for i in range(len(file.files) // 2)]


def peak_mib() -> float:
    """Returns the peak resident memory of this program.

    `getrusage` would include the memory of the parent when it started this process.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def serve(
    imported_mib: float,
    update: Callable[[int], float],
    loss: Callable[[], float],
    batches: int,
    versions: str,
) -> None:
    """Answers commands until standard input ends.

    `{"task": "loss"}` answers with the first batch's loss, without dropout and without an update;
    `{"task": "train", "clock": "wall" or "cpu"}` updates the weights once by every batch and answers
    with the seconds of each update and the process's peak memory so far.

    Args:
        imported_mib: The process's peak memory after all imports, before anything else.
        update: Trains on the batch with a number, and returns its loss.
        loss: Returns the loss of batch 0 without dropout.
        batches: Number of batches.
        versions: The engine's versions, for the report.
    """
    print(json.dumps({"versions": versions, "imported_mib": imported_mib}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["task"] == "loss":
            print(json.dumps({"loss": loss()}), flush=True)
            continue
        clock = {"wall": time.perf_counter, "cpu": time.process_time}[command["clock"]]
        seconds, losses = [], []
        for number in range(batches):
            start = clock()
            losses.append(update(number))
            seconds.append(clock() - start)
        print(json.dumps({"seconds": seconds, "losses": losses, "peak_mib": peak_mib()}), flush=True)
