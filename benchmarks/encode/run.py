"""Documents per second and query latency of our encoder against transformers on torch.

    make bench-encode

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
from workload import length_sorted_batches, make_workload, write_weights

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
THREADS = 2
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
    """

    def __init__(self, name: str, python: Path, script: str, weights: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [str(python), str(HERE / script), str(weights), str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(THREADS)},
        )
        self.versions = self._answer()["versions"]

    def seconds(self, batches: Path, keep: Path | None = None) -> list[float]:
        """Encodes the batches of a file and returns how long each took."""
        command = {"batches": str(batches), "keep": str(keep) if keep else None}
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
    parser.add_argument("--documents", type=int, default=96, help="documents a round")
    parser.add_argument("--queries", type=int, default=100, help="queries a round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    folder = REPOSITORY / ".bench" / "encode"
    folder.mkdir(parents=True, exist_ok=True)
    workload = make_workload(arguments.documents, arguments.queries)
    files = {
        "documents, batch 1": _write(folder / "documents_1.npz", workload.documents, 1),
        "documents, batch 32": _write(folder / "documents_32.npz", workload.documents, 32),
        "queries, batch 1": _write(folder / "queries_1.npz", workload.queries, 1),
    }
    weights = folder / "weights.safetensors"
    write_weights(weights)
    engines = (
        Engine("xtr-tf", REPOSITORY / ".venv/bin/python", "tensorflow_engine.py", weights),
        Engine("torch", REPOSITORY / ".parity/bin/python", "torch_engine.py", weights),
    )
    _print_setting(workload.source, arguments, engines)
    try:
        _check_agreement(engines, files["documents, batch 32"], folder)
        measured = _measure(engines, files, arguments.rounds)
    finally:
        for engine in engines:
            engine.close()
    _report(measured, arguments)


def _write(path: Path, texts: list[np.ndarray], batch_size: int) -> Path:
    np.savez(path, *length_sorted_batches(texts, batch_size))
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
    print(f"machine    {processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print(f"texts      {source}; {arguments.documents} documents, {arguments.queries} queries a round")
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


def _report(measured: dict[str, list[tuple[list[float], ...]]], arguments: argparse.Namespace) -> None:
    rates = {
        task: [tuple(arguments.documents / sum(seconds) for seconds in pair) for pair in rounds]
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
    best = [tuple(map(max, *(zip(*sizes, strict=True)))) for sizes in zip(*rates.values(), strict=True)]
    docs_ratio = statistics.median(ours / theirs for ours, theirs in best)
    latency_ratio = statistics.median(ours / theirs for ours, theirs in latencies)
    print(f"load       {os.getloadavg()[0]:.1f} at the end (about {THREADS} when nothing else runs)")
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
