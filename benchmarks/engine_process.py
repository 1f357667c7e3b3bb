"""Runs two engines in turns, each in its own process. Shared by the benchmarks `encode` and `train`.

The engines alternate in every round, so that other load on the machine affects both, and ratios are taken
within a round. Knows nothing about what the engines do. Runs in .venv; the workers run `engine_loop.py` of
each benchmark.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHONS = {"xtr-tf": REPOSITORY / ".venv/bin/python", "torch": REPOSITORY / ".parity/bin/python"}
_THREADS = 2
# Torch's threads wait for each other without sleeping, so other processes slow them far more than ours.
_QUIET_LOAD = 0.5
# Torch's worker threads spin for a while after their work; the other engine must not pay for it.
_PAUSE_SECONDS = 0.5

AnyEngine = TypeVar("AnyEngine", bound="Engine")
Measured = TypeVar("Measured")


class Engine:
    """One worker process, which answers one line of JSON with another.

    Args:
        name: `xtr-tf` or `torch`; decides the interpreter, and the name in the report.
        script: The worker's file.
        arguments: Its arguments without the last, the number of threads.
        cpu_time: Whether to measure the processor time of one thread, instead of two by the wall clock.

    Attributes:
        hello: The worker's first answer, with its `versions`.
        clock: The worker's clock, `cpu` or `wall`.
    """

    def __init__(self, name: str, script: Path, arguments: Sequence[str], cpu_time: bool) -> None:
        self.name = name
        threads, self.clock = (1, "cpu") if cpu_time else (_THREADS, "wall")
        self._process = subprocess.Popen(
            [str(PYTHONS[name]), str(script), *arguments, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(threads)},
        )
        self.hello = self._answer()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Sends a command, waits for the answer, and lets the threads become idle."""
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        time.sleep(_PAUSE_SECONDS)
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"The {self.name} engine ended early; its reason stands above.")
        return json.loads(line)


def in_turns(
    engines: tuple[AnyEngine, ...], round_: int, measure: Callable[[AnyEngine], Measured]
) -> tuple[Measured, ...]:
    """Returns the result of each engine, in the order of `engines`; every round another one goes first."""
    order = engines if round_ % 2 else engines[::-1]
    measured = {engine.name: measure(engine) for engine in order}
    return tuple(measured[engine.name] for engine in engines)


def processor_name() -> str:
    """The processor, and the widest vector instructions that it has."""
    entries: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        entries.setdefault(name.strip(), value.strip())
    flags = entries.get("flags", "").split()
    widest = next((name for name in ("avx512f", "avx2") if name in flags), "no AVX2")
    return f"{entries.get('model name') or platform.processor()} ({widest})"


def print_machine(cpu_time: bool) -> None:
    """Prints what the figures were measured on, and warns if the machine is not quiet."""
    load = os.getloadavg()[0]
    print(f"machine    {processor_name()}, {os.cpu_count()} cores, load {load:.1f} at the start")
    if cpu_time:
        print("clock      CPU time of one thread, not the wall clock")
    elif load > _QUIET_LOAD:
        print("WARNING    other processes are running, which slows torch more: these figures flatter us")
