"""Documents per second and query latency of our encoder, compared with transformers on torch.

    make bench-encode
    make bench-encode ARGS="--only corpus --against COMMIT" # a whole job, and that of an earlier commit
    .venv/bin/python benchmarks/encode/run.py --cpu-time    # one thread's CPU time, on a busy machine

Each engine has its own process. They take turns round by round, so that other load on the machine
affects both. Ratios are taken within a round, and their medians are reported. The engines get ids, so
tokenizing is not measured. Documents are batched by length for both engines. A whole job, including
tokenizing, is measured separately (`corpus.py`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

import numpy as np
from corpus import measure_corpus
from workload import length_sorted_batches, make_workload, scifact_texts, spread, write_weights

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from earlier_commit import checked_out
from engine_process import REPOSITORY, Engine, in_turns, print_machine

HERE = Path(__file__).resolve().parent
BATCH_SIZE = 32
TOLERANCE = 2e-5


class Encoding(Engine):
    """An engine that encodes."""

    def seconds(self, batches: Path, keep: Path | None = None) -> list[float]:
        """Encodes the batches of a file and returns how long each took."""
        return self.ask(batches=str(batches), clock=self.clock, keep=str(keep) if keep else None)["seconds"]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4, help="batches of 32 documents per round")
    parser.add_argument("--queries", type=int, default=100, help="queries per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true", help="one thread each, measured by its CPU time")
    parser.add_argument("--against", metavar="COMMIT", help="also measure whole jobs of an earlier commit")
    parser.add_argument("--documents", type=int, default=1_000, help="documents of a whole job")
    parser.add_argument("--only", choices=("all", "corpus"), default="all", help="run only one part")
    arguments = parser.parse_args()

    folder = REPOSITORY / ".bench" / "encode"
    folder.mkdir(parents=True, exist_ok=True)
    result = {} if arguments.only == "corpus" else _next_to_torch(arguments, folder)
    result |= _whole_jobs(arguments, folder)
    print(f"load       {os.getloadavg()[0]:.1f} at the end")
    if result:
        print("RESULT bench-encode " + " ".join(f"{name}={value:.2f}" for name, value in result.items()))


def _whole_jobs(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Prints where the time of a job goes; returns the ratio to an earlier commit, if there is one."""
    if arguments.only == "corpus":
        print_machine(arguments.cpu_time)
    texts = scifact_texts()
    earlier = checked_out(arguments.against, folder) if arguments.against else None
    clock = "cpu" if arguments.cpu_time else "wall"
    documents = texts and texts["corpus"][: arguments.documents]
    ratio = measure_corpus(folder, documents, earlier, arguments.rounds, clock)
    return {} if ratio is None else {"corpus_ratio": ratio}


def _next_to_torch(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Measures both engines round by round; returns the ratios for the RESULT line."""
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
    engines = (
        Encoding("xtr-tf", HERE / "tensorflow_engine.py", [str(weights)], arguments.cpu_time),
        Encoding("torch", HERE / "torch_engine.py", [str(weights)], arguments.cpu_time),
    )
    _print_setting(workload.source, arguments, engines)
    try:
        _check_agreement(engines, files[f"documents, batch {BATCH_SIZE}"], folder)
        measured = _measure(engines, files, arguments.rounds)
    finally:
        for engine in engines:
            engine.close()
    return _report(measured, len(documents))


def _write(path: Path, batches: list[np.ndarray]) -> Path:
    np.savez(path, *batches)
    return path


def _print_setting(source: str, arguments: argparse.Namespace, engines: tuple[Encoding, ...]) -> None:
    print_machine(arguments.cpu_time)
    print(
        f"texts      {source}; {arguments.batches} batches of {BATCH_SIZE} documents of like length, "
        f"spread over the corpus, and {arguments.queries} queries per round"
    )
    print("model      mT5-small's shape, random weights, float32, projection to 128")
    for engine in engines:
        print(f"{engine.name:10s} {engine.hello['versions']}")


def _check_agreement(engines: tuple[Encoding, ...], batches: Path, folder: Path) -> None:
    """Checks that both engines compute the same vectors."""
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
    engines: tuple[Encoding, ...], files: dict[str, Path], rounds: int
) -> dict[str, list[tuple[list[float], ...]]]:
    """Seconds of every call, by task and round, one list per engine; the first round warms up."""
    measured: dict[str, list[tuple[list[float], ...]]] = {task: [] for task in files}
    for round_ in range(rounds + 1):
        for task, path in files.items():
            seconds = in_turns(engines, round_, lambda engine, path=path: engine.seconds(path))
            if round_:
                measured[task].append(seconds)
    return measured


def _report(measured: dict[str, list[tuple[list[float], ...]]], documents: int) -> dict[str, float]:
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
    # Each engine at its better batch size.
    best = [
        tuple(max(engine_rates) for engine_rates in zip(*sizes, strict=True))
        for sizes in zip(*rates.values(), strict=True)
    ]
    docs_ratio = statistics.median(ours / theirs for ours, theirs in best)
    latency_ratio = statistics.median(ours / theirs for ours, theirs in latencies)
    print("docs_ratio compares each engine at its better batch size, round by round")
    return {"docs_ratio": docs_ratio, "query_latency_ratio": latency_ratio}


def _print_pairs(task: str, unit: str, pairs: list[tuple[float, ...]]) -> None:
    ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratios = [a / b for a, b in pairs]
    print(
        f"{task:20s} xtr-tf {ours:8.2f}  torch {theirs:8.2f} {unit}; "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
