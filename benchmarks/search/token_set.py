"""The token vectors that every engine indexes, and how each is measured. Needs only NumPy."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

QUERIES = 100
TOP_K = 10


class TokenSet:
    """A prefix of encoded token vectors, cut at a document, and real queries.

    Attributes:
        vectors: `[tokens, dim]` float16, mapped from the file.
        document_of_token: `[tokens]` int32, documents numbered from 0 without gaps.
        queries: One `[pieces, dim]` float32 array per query.
        gold: Relevant documents of each query.
    """

    def __init__(self, folder: Path, tokens: int, queries: int = QUERIES) -> None:
        about = json.loads((folder / "about.json").read_text())
        documents = np.load(folder / "document_of_token.npy")
        if tokens < len(documents):
            tokens = int(np.searchsorted(documents, documents[tokens]))
        numbers, documents = np.unique(documents[:tokens], return_inverse=True)
        ordinal = {int(number): i for i, number in enumerate(numbers)}
        stored = np.memmap(folder / "vectors.f16", np.float16, "r").reshape(-1, about["dim"])
        self.source = about["source"]
        self.vectors = stored[: len(documents)]
        self.document_of_token = documents.astype(np.int32)
        self.num_documents = len(numbers)
        self.offsets = np.searchsorted(documents, np.arange(self.num_documents + 1))
        encoded = np.load(folder / "queries.npz")
        every = max(1, (len(encoded["offsets"]) - 1) // queries)
        bounds = list(zip(encoded["offsets"][:-1], encoded["offsets"][1:], strict=True))[::every][:queries]
        self.queries = [np.ascontiguousarray(encoded["vectors"][start:end]) for start, end in bounds]
        self.gold = [{ordinal[d] for d in own if d in ordinal} for own in about["gold"][::every][:queries]]

    def documents(self) -> list[np.ndarray]:
        """One `[tokens, dim]` float32 array per document."""
        return [self.vectors[a:b].astype(np.float32) for a, b in itertools.pairwise(self.offsets)]


Build = Callable[[TokenSet, Path], None]
Run = Callable[[TokenSet, Path, int], None]


def engine_main(description: str | None, build: Build, run: Run) -> None:
    """The main function of every engine's script: builds its index, or measures it.

    Args:
        description: Shown by `--help`.
        build: Called with the tokens and the index's folder.
        run: Called with the tokens, the index's folder and the number of threads.
    """
    arguments = _arguments(description)
    tokens = TokenSet(arguments.vectors, arguments.tokens, arguments.queries)
    if arguments.step == "build":
        build(tokens, arguments.index)
    else:
        run(tokens, arguments.index, arguments.threads)


def _arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("step", choices=("build", "measure"))
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=QUERIES)
    arguments = parser.parse_args()
    if arguments.step == "measure":
        os.sched_setaffinity(0, range(arguments.threads))
    return arguments


def built(index: Path, seconds: float) -> None:
    """Records how long an index took and how large it is."""
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    (index / "built.json").write_text(json.dumps({"build_seconds": seconds, "disk_bytes": size}))


def resident_bytes() -> int:
    """Resident memory of this process, without mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not say how much memory a process holds")


def measure(search: Callable[[np.ndarray], Sequence[int]], queries: Sequence[np.ndarray]) -> dict[str, Any]:
    """Times queries one at a time.

    Args:
        search: Returns the ordinals of the best documents for a query's vectors.
        queries: The queries.

    Returns:
        Percentiles in milliseconds and the documents found.
    """
    for query in queries[:10]:
        search(query)
    times = np.empty(len(queries))
    found: list[list[int]] = []
    for number, query in enumerate(queries):
        start = time.perf_counter()
        documents = search(query)
        times[number] = 1e3 * (time.perf_counter() - start)
        found.append([int(document) for document in documents[:TOP_K]])
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "mean_ms": float(times.mean()), "found": found}


def report(engine: str, setting: str, threads: int, k_prime: int | None, measured: dict[str, Any]) -> None:
    """Prints one point of an engine's curve as a line of JSON."""
    point = {"engine": engine, "setting": setting, "threads": threads, "k_prime": k_prime, **measured}
    print("POINT " + json.dumps(point), flush=True)
