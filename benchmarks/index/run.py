"""`make bench-index`: memory, time and quality of our index build, compared with ScaNN's own builder.

The vectors are synthetic (workload.py). The builds run one after the other, each in its own process. Peak
memory is the process's largest resident set, including mapped files. Both engines have the same number of
leaves, sample, iterations, codes, threshold and searched leaves. Overlap@10 is with the best documents of
exact search under XTR's score. `growth` compares the processor time per million tokens of the largest and the
smallest size. `nearest` is the share of tokens in their nearest leaf, or in one at most 1% farther.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from workload import make_queries, write_vectors

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.index.build import build_index
from xtr_tf.vectors.store import TokenVectors

MILLION = 1_000_000
# ScaNN's own builder was seen to need 2.6 GB per million tokens.
SCANN_GB_A_MILLION = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[2, 5], help="tokens, in millions")
    parser.add_argument(
        "--scann", type=float, default=5, help="the size that ScaNN's own builder indexes, too; 0 for none"
    )
    parser.add_argument("--folder", type=Path, default=Path(".bench/index"))
    arguments = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {_available():.0f} GB free")
    print(" ".join(f"{name} {version(name)}" for name in ("scann", "faiss-cpu", "numba", "tensorflow")))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sizes = sorted(arguments.millions)
    results = {size: _measure_ours(arguments.folder, size) for size in sizes}
    compared = {"time_ratio": "none", "overlap_delta": "none"}
    if arguments.scann in results:
        compared = _compare(arguments.folder, arguments.scann, results[arguments.scann])
    last = results[sizes[-1]]
    costs = {size: result["cpu_seconds"] / size for size, result in results.items()}
    print(
        f"RESULT bench-index peak_gb_{sizes[-1]:g}m={last['peak_gb']:.2f} "
        + " ".join(f"cpu_s_per_m_{size:g}m={cost:.1f}" for size, cost in costs.items())
        + f" growth={costs[sizes[-1]] / costs[sizes[0]]:.2f} nearest={last['nearest']:.4f} "
        f"time_ratio={compared['time_ratio']} overlap_delta={compared['overlap_delta']} "
        f"bytes_per_token={last['bytes_per_token']:.1f}"
    )


def _measure_ours(folder: Path, millions: float) -> dict[str, float]:
    vectors = folder / f"vectors-{millions:g}m"
    write_vectors(vectors, int(millions * MILLION))
    index = folder / f"index-{millions:g}m"
    shutil.rmtree(index, ignore_errors=True)
    result = _run("xtr_tf", vectors, index)
    print(
        f"xtr-tf {millions:g}M tokens: {result['seconds']:.0f} s ({result['cpu_seconds']:.0f} s of CPU), "
        f"peak {result['peak_gb']:.2f} GB, "
        f"{result['seconds'] / millions:.1f} s and {result['peak_gb'] / millions:.2f} GB per million tokens, "
        f"each compared with {result['compared']:.0f} of {result['leaves']} centres",
        flush=True,
    )
    return result


def _compare(folder: Path, millions: float, ours: dict[str, float]) -> dict[str, str]:
    """Time and quality of ours compared with ScaNN's; "none" if memory is too small."""
    needed = SCANN_GB_A_MILLION * millions + 1
    if _available() < needed:
        print(
            f"ScaNN's own build was not run: it needs about {needed:.0f} GB, {_available():.0f} GB are free"
        )
        return {"time_ratio": "none", "overlap_delta": "none"}
    vectors, queries = folder / f"vectors-{millions:g}m", folder / "queries.npy"
    corpus = TokenVectors.open(vectors)
    np.save(queries, make_queries(corpus))
    scann = _run("scann", vectors, folder / "scann.npy", queries)
    print(f"ScaNN {millions:g}M tokens: {scann['seconds']:.0f} s, peak {scann['peak_gb']:.2f} GB", flush=True)
    _run("search", folder / f"index-{millions:g}m", folder / "xtr_tf.npy", queries)
    exact = folder / "exact"
    shutil.rmtree(exact, ignore_errors=True)
    build_index(corpus, exact, IndexConfig(kind="exact"))
    _run("search", exact, folder / "exact.npy", queries)
    shutil.rmtree(exact)
    overlaps = {name: _overlap(folder / f"{name}.npy", folder / "exact.npy") for name in ("xtr_tf", "scann")}
    print(f"overlap@10 with exact search: xtr-tf {overlaps['xtr_tf']:.3f}, ScaNN {overlaps['scann']:.3f}")
    return {
        "time_ratio": f"{ours['seconds'] / scann['seconds']:.2f}",
        "overlap_delta": f"{overlaps['xtr_tf'] - overlaps['scann']:+.3f}",
    }


def _overlap(found: Path, expected: Path) -> float:
    rows = zip(np.load(found), np.load(expected), strict=True)
    return float(np.mean([len(set(ours) & set(exact)) / len(exact) for ours, exact in rows]))


def _run(*arguments: object) -> dict[str, float]:
    worker = Path(__file__).with_name("worker.py")
    command = [sys.executable, "-W", "ignore", str(worker), *map(str, arguments)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    finished = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(finished.stdout.splitlines()[-1])


def _available() -> float:
    """Memory that is available without swapping, in GB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = next(line for line in lines if line.startswith("MemAvailable")).split()
    return int(fields[1]) * 1024 / 1e9


if __name__ == "__main__":
    main()
