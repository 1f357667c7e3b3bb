"""`make bench-search`: every engine over the same token vectors, on one thread and on two.

Prints a table, draws `latency_overlap.svg`, measures the parts of one query (`breakdown.py`), and ends with
one RESULT line. Competitors run in their own environments under `.bench/`; real vectors come from the
measurement data. Our own indexes are built in every run. With `--against COMMIT`, the code of an earlier
commit is one of the engines and builds its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from curves import Point, median_of_rounds, milliseconds_at, overlap, points_of, reciprocal_rank, worst_ratio
from token_set import TokenSet
from truth import exact_answers, yardstick

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from earlier_commit import checked_out
from engine_process import processor_name
from environments import PACKAGES, environment

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WORK = REPOSITORY / ".bench"
DEFAULT_TOKENS = 1_000_000
# The environment of each engine; None is xtr-tf's own.
ENGINES = {"xtr_tf": None, "faiss": None, "notebook": None, "warp": "warp", "plaid": "plaid"}
# From this overlap on, every point of FAISS' curve is compared.
LEAST_OVERLAP = 0.85


def prepare_vectors(tokens: int) -> Path:
    """Encodes the measurement data, or makes clustered vectors if there is none."""
    folder = WORK / "vectors"
    enough = [path for path in folder.glob("minilm-*") if path.name.split("-")[1].isdigit()]
    enough = [path for path in enough if int(path.name.split("-")[1]) >= tokens]
    if enough:
        return min(enough, key=lambda path: int(path.name.split("-")[1]))
    data = Path(os.environ.get("XTR_TF_DATA", REPOSITORY.parent / "shared" / "data"))
    python = environment(WORK, "encoder") if data.is_dir() else None
    if python is None:
        from synthetic import write_clustered

        return write_clustered(folder / f"clustered-{tokens}", tokens)
    out = folder / f"minilm-{tokens}"
    command = [
        str(python),
        str(HERE / "encode.py"),
        "--data",
        str(data),
        "--out",
        str(out),
        "--tokens",
        str(tokens),
    ]
    subprocess.run(command, check=True)
    return out


def build_engine(name: str, python: Path, vectors: Path, tokens: int) -> None:
    """Builds the index of another engine unless it exists."""
    index = _index(name, vectors, tokens)
    if not (index / "complete").is_file():
        _call([str(python), str(HERE / f"engine_{name}.py"), "build", *_common(name, vectors, tokens)], 2)
        (index / "complete").touch()


def build_ours(vectors: Path, tokens: int, commit: str | None = None) -> Path | None:
    """Builds our indexes again, with the current code or with that of a commit, whose folder is returned."""
    tree = checked_out(commit, WORK / "search") if commit else None
    name = f"before-{commit}" if commit else "xtr_tf"
    shutil.rmtree(_index(name, vectors, tokens), ignore_errors=True)
    _call([sys.executable, str(HERE / "engine_xtr_tf.py"), "build", *_common(name, vectors, tokens)], 2, tree)
    return tree


def measure_engine(
    name: str,
    python: Path,
    vectors: Path,
    arguments: argparse.Namespace,
    threads: int,
    tree: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Measures every setting of an engine once and yields its points; those of a `tree` are `before`."""
    common = _common(f"before-{arguments.against}" if tree else name, vectors, arguments.tokens)
    limits = ["--threads", str(threads), "--queries", str(arguments.queries)]
    script = str(HERE / f"engine_{name}.py")
    for line in _call([str(python), script, "measure", *common, *limits], threads, tree):
        if line.startswith("POINT "):
            point = json.loads(line.removeprefix("POINT "))
            yield {**point, "engine": point["engine"].replace("xtr-tf", "before" if tree else "xtr-tf")}


def take_apart(vectors: Path, tokens: int, threads: int) -> float:
    """Prints where the time of a query goes; returns the search's time divided by the machine's limit."""
    home = _index("xtr_tf", vectors, tokens) / "scann"
    places = ["--index", str(home / "index"), "--vectors", str(vectors), "--model", str(home / "prefixes")]
    lines = _call([sys.executable, str(HERE / "breakdown.py"), *places, "--threads", str(threads)], threads)
    print("\n".join(lines[:-1]), flush=True)
    return float(lines[-1].rpartition("limit_ratio=")[2])


def _index(name: str, vectors: Path, tokens: int) -> Path:
    return WORK / "search" / f"{vectors.name}-{tokens}" / name


def _common(name: str, vectors: Path, tokens: int) -> list[str]:
    index = _index(name, vectors, tokens)
    return ["--vectors", str(vectors), "--tokens", str(tokens), "--index", str(index)]


def _call(command: list[str], threads: int, tree: Path | None = None) -> list[str]:
    limits = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    variables = {**os.environ, **dict.fromkeys(limits, str(threads)), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if tree:
        variables["PYTHONPATH"] = str(tree)
    finished = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if finished.returncode:
        print(finished.stderr[-2_000:], file=sys.stderr)
        raise SystemExit(f"failed: {' '.join(command[1:3])}")
    return finished.stdout.splitlines()


def judge(record: dict[str, Any], tokens: TokenSet, exact: dict[str, np.ndarray]) -> None:
    """Adds overlaps and the reciprocal rank of the gold document."""
    found = record.pop("found")
    every = slice(None, None, len(tokens.queries) // len(found))
    picked = {name: answers[every][: len(found)] for name, answers in exact.items()}
    record["overlap_colbert"] = overlap(found, picked["colbert"])
    record["judged_by"] = yardstick(record["k_prime"])
    exact_xtr = picked.get(f"xtr-{record['judged_by']}")
    record["overlap_xtr"] = None if exact_xtr is None else overlap(found, exact_xtr)
    record["mrr"] = reciprocal_rank(found, tokens.gold[every][: len(found)])


def summarise(records: list[dict[str, Any]], tokens: int, limit_ratio: float) -> str:
    """The RESULT line: ratios of p50 at equal or better overlap, each the worst over the other's curve."""
    scann, core = ("xtr-tf scann", "xtr-tf scann-int8"), ("xtr-tf core", "xtr-tf core-int4")

    def points(*engines: str, k_prime: int = 1_000, threads: int = 1) -> list[Point]:
        comparable = [record for record in records if record["judged_by"] == k_prime]
        return points_of(comparable, "overlap_xtr", threads, *engines)

    def faiss_ratio(threads: int) -> float:
        theirs = points("FAISS", threads=threads)
        return worst_ratio(points(*scann, threads=threads), theirs, LEAST_OVERLAP)

    def colbert_ratio(theirs: str) -> float:
        ours = points_of(records, "overlap_colbert", 1, *scann, "xtr-tf rescored")
        return worst_ratio(ours, points_of(records, "overlap_colbert", 1, theirs))

    reached = points("xtr-tf scann")
    best = max((point.overlap for point in reached), default=0.0)
    by_core, by_scann = (milliseconds_at(curve, min(0.9, best)) for curve in (points(*core), reached))
    plain = [
        record
        for record in records
        if (record["engine"], record["threads"], record["k_prime"]) == ("xtr-tf scann", 1, 1_000)
    ]
    values = {
        "faiss_ratio_1t": faiss_ratio(1),
        "faiss_ratio_2t": faiss_ratio(2),
        "warp_ratio": colbert_ratio("xtr-warp-rs"),
        "plaid_ratio": colbert_ratio("fast-plaid"),
        "notebook_ratio": worst_ratio(
            points(*scann, *core, k_prime=40_000), points("notebook", k_prime=40_000)
        ),
        "scoring_share": float(np.median([record["scoring_share"] for record in plain])),
        "core_ratio": by_core / by_scann if by_core and by_scann else float("nan"),
        "overlap": best,
        "bytes_per_token": plain[0]["disk_bytes"] / tokens,
        "speedup": worst_ratio(reached, points("before scann")),
        "limit_ratio": limit_ratio,
    }
    return "RESULT bench-search " + " ".join(f"{name}={value:.3g}" for name, value in values.items())


HEADER = (
    f"{'engine':18} {'setting':58} {'thr':>3} {'p50':>8} {'p99':>8} {'xtr':>6} {'colb':>6} {'MRR':>6} "
    f"{'build s':>8} {'B/tok':>6} {'RAM/tok':>7}"
)


def table_row(r: dict[str, Any], tokens: int) -> str:
    """One setting: milliseconds, overlaps with exact search, seconds to build, bytes per token."""
    xtr = "" if r["overlap_xtr"] is None else f"{r['overlap_xtr']:.3f}"
    return (
        f"{r['engine']:18} {r['setting']:58} {r['threads']:3} {r['p50_ms']:8.2f} {r['p99_ms']:8.2f} "
        f"{xtr:>6} {r['overlap_colbert']:6.3f} {r['mrr']:6.3f} {r['build_seconds']:8.0f} "
        f"{r['disk_bytes'] / tokens:6.0f} {r['memory_bytes'] / tokens:7.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="5M tokens instead of 1M")
    parser.add_argument("--tokens", type=int, default=0, help="another number of tokens")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of rounds; every engine has a turn in each"
    )
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--against", metavar="COMMIT", help="also measure the search of an earlier commit")
    arguments = parser.parse_args()
    arguments.tokens = arguments.tokens or (5_000_000 if arguments.large else DEFAULT_TOKENS)
    vectors = prepare_vectors(arguments.tokens)
    tokens = TokenSet(vectors, arguments.tokens, arguments.queries)
    load = os.getloadavg()[0]
    own = ", ".join(f"{name} {version(name)}" for name in ("tensorflow", "scann", "faiss-cpu", "numpy"))
    print(f"{processor_name()}, {os.cpu_count()} cores, load {load:.1f}; {own}")
    print(f"{len(tokens.vectors)} tokens of {tokens.num_documents} passages: {tokens.source}")
    cache = WORK / "search" / f"{vectors.name}-{arguments.tokens}" / f"exact-{arguments.queries}.npz"
    exact = exact_answers(tokens, cache)
    pythons = {
        name: Path(sys.executable) if ENGINES[name] is None else environment(WORK, ENGINES[name])
        for name in arguments.engines
    }
    engines = {name: python for name, python in pythons.items() if python is not None}
    print("; ".join(", ".join(PACKAGES[home]) for name in engines if (home := ENGINES[name])))
    for name, python in engines.items():
        print(f"building {name}", flush=True)
        if name == "xtr_tf":
            build_ours(vectors, arguments.tokens)
        else:
            build_engine(name, python, vectors, arguments.tokens)
    before = build_ours(vectors, arguments.tokens, arguments.against) if arguments.against else None
    measured: list[dict[str, Any]] = []
    # In turns, so that a slow minute of the machine does not affect only one engine.
    for number, threads in itertools.product(range(arguments.rounds), arguments.threads):
        for name, python in engines.items():
            print(f"round {number + 1}, {threads} thread(s): {name}", flush=True)
            measured += measure_engine(name, python, vectors, arguments, threads)
            if before and name == "xtr_tf":
                measured += measure_engine(name, python, vectors, arguments, threads, before)
    records = median_of_rounds(measured)
    print(HEADER)
    for record in records:
        judge(record, tokens, exact)
        print(table_row(record, len(tokens.vectors)), flush=True)
    if arguments.engines == list(ENGINES) and arguments.tokens == DEFAULT_TOKENS:
        from plot import plot

        plot(records, HERE / "latency_overlap.svg")
    limits = [take_apart(vectors, arguments.tokens, n) for n in arguments.threads if "xtr_tf" in engines]
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    if limits:
        print(summarise(records, len(tokens.vectors), limits[0]))


if __name__ == "__main__":
    main()
