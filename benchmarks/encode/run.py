"""Documents per second and query latency of our encoder against transformers on torch.

    make bench-encode
    .venv/bin/python benchmarks/encode/run.py --cpu-time    # one thread's CPU time, on a busy machine

Each engine is a process of its own. They take turns round by round, so that other load on the
machine hits both, and each round's ratio is of neighbours in time; the medians are reported.
Ids are given: tokenising is not measured. Documents are batched by length for both engines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from workload import length_sorted_batches, make_workload, spread, write_weights

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
THREADS = 2
BATCH_SIZE = 32
# Torch's threads wait for each other without sleeping: beside other processes they lose far more than ours.
QUIET_LOAD = 0.5
TOLERANCE = 2e-5
# Torch's worker threads spin for a while after their work; the other engine must not pay for it.
PAUSE_SECONDS = 0.5


class Engine:
    """One worker process.

    Args:
        name: For the report.
        python: The interpreter of its environment.
        script: Its file beside this one.
        weights: The weights both engines load.
        threads: How many it may use.
        clock: `wall`, or `cpu` for the process's own time.
    """

    def __init__(self, name: str, python: Path, script: str, weights: Path, threads: int, clock: str) -> None:
        self.name = name
        self._clock = clock
        self._process = subprocess.Popen(
            [str(python), str(HERE / script), str(weights), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(threads)},
        )
        self.versions = self._answer()["versions"]

    def seconds(self, batches: Path, keep: Path | None = None) -> list[float]:
        """Encodes the batches of a file and returns how long each took."""
        command = {"batches": str(batches), "clock": self._clock, "keep": str(keep) if keep else None}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        seconds = self._answer()["seconds"]
        time.sleep(PAUSE_SECONDS)
        return seconds

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"bench-encode: the {self.name} engine ended early; its reason stands above.")
        return json.loads(line)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4, help="batches of 32 documents a round")
    parser.add_argument("--queries", type=int, default=100, help="queries a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true", help="one thread each, timed by its CPU time")
    arguments = parser.parse_args()

    folder = REPOSITORY / ".bench" / "encode"
    folder.mkdir(parents=True, exist_ok=True)
    workload = make_workload(arguments.queries)
    batches = spread(length_sorted_batches(workload.documents, BATCH_SIZE), arguments.batches)
    documents = [row[row != 0][np.newaxis] for batch in batches for row in batch]
    queries = [query[np.newaxis] for query in workload.queries]
    files = {
        "documents, batch 1": _write(folder / "documents_1.npz", documents),
        f"documents, batch {BATCH_SIZE}": _write(folder / f"documents_{BATCH_SIZE}.npz", batches),
        "queries, batch 1": _write(folder / "queries_1.npz", queries),
    }
    weights = folder / "weights.safetensors"
    write_weights(weights)
    timing = (1, "cpu") if arguments.cpu_time else (THREADS, "wall")
    engines = (
        Engine("xtr-tf", REPOSITORY / ".venv/bin/python", "tensorflow_engine.py", weights, *timing),
        Engine("torch", REPOSITORY / ".parity/bin/python", "torch_engine.py", weights, *timing),
    )
    _print_setting(workload.source, arguments, engines)
    try:
        _check_agreement(engines, files[f"documents, batch {BATCH_SIZE}"], folder)
        measured = _measure(engines, files, arguments.rounds)
    finally:
        for engine in engines:
            engine.close()
    _report(measured, len(documents))


def _write(path: Path, batches: list[np.ndarray]) -> Path:
    np.savez(path, *batches)
    return path


def _print_setting(source: str, arguments: argparse.Namespace, engines: tuple[Engine, ...]) -> None:
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    load = os.getloadavg()[0]
    print(f"machine    {processor}, {os.cpu_count()} cores, load {load:.1f} at the start")
    if arguments.cpu_time:
        print("clock      CPU time of one thread, not the wall clock")
    elif load > QUIET_LOAD:
        print("WARNING    other processes are running, which slows torch more: these figures flatter us")
    print(
        f"texts      {source}; {arguments.batches} batches of {BATCH_SIZE} documents of like length, "
        f"spread over the corpus, and {arguments.queries} queries a round"
    )
    print("model      mT5-small's shape, random weights, float32, projection to 128")
    for engine in engines:
        print(f"{engine.name:10s} {engine.versions}")


def _check_agreement(engines: tuple[Engine, ...], batches: Path, folder: Path) -> None:
    """A fast engine that computes something else would not count."""
    outputs = []
    for engine in engines:
        kept = folder / f"{engine.name}.npy"
        engine.seconds(batches, keep=kept)
        outputs.append(np.load(kept))
    difference = np.abs(outputs[0] - outputs[1]).max()
    print(f"agreement  largest difference of a vector's entry {difference:.1e}")
    if difference > TOLERANCE:
        sys.exit(f"bench-encode: the engines disagree by more than {TOLERANCE}.")


def _measure(
    engines: tuple[Engine, ...], files: dict[str, Path], rounds: int
) -> dict[str, list[tuple[list[float], ...]]]:
    """Seconds of every call, by task and round, one list an engine; the first round warms up."""
    measured: dict[str, list[tuple[list[float], ...]]] = {task: [] for task in files}
    for round_ in range(rounds + 1):
        for task, path in files.items():
            # Whoever goes first changes every round.
            order = engines if round_ % 2 else engines[::-1]
            seconds = {engine.name: engine.seconds(path) for engine in order}
            if round_:
                measured[task].append(tuple(seconds[engine.name] for engine in engines))
    return measured


def _report(measured: dict[str, list[tuple[list[float], ...]]], documents: int) -> None:
    rates = {
        task: [tuple(documents / sum(seconds) for seconds in pair) for pair in rounds]
        for task, rounds in measured.items()
        if task.startswith("documents")
    }
    latencies = [
        tuple(1e3 * statistics.median(seconds) for seconds in pair) for pair in measured["queries, batch 1"]
    ]
    for task, pairs in rates.items():
        _print_pairs(task, "documents/s", pairs)
    _print_pairs("queries, batch 1", "ms, median", latencies)
    # Each engine at the batch size that suits it better.
    best = [
        tuple(max(engine_rates) for engine_rates in zip(*sizes, strict=True))
        for sizes in zip(*rates.values(), strict=True)
    ]
    docs_ratio = statistics.median(ours / theirs for ours, theirs in best)
    latency_ratio = statistics.median(ours / theirs for ours, theirs in latencies)
    print(f"load       {os.getloadavg()[0]:.1f} at the end")
    print("docs_ratio compares each engine at its better batch size, round by round")
    print(f"RESULT bench-encode docs_ratio={docs_ratio:.2f} query_latency_ratio={latency_ratio:.2f}")


def _print_pairs(task: str, unit: str, pairs: list[tuple[float, ...]]) -> None:
    ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratios = [a / b for a, b in pairs]
    print(
        f"{task:20s} xtr-tf {ours:8.2f}  torch {theirs:8.2f} {unit}; "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
