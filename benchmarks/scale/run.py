"""`make bench-scale`: an index in four partitions, from its build by two workers to a killed server.

Clustered synthetic tokens (benchmarks/index/workload.py) with the shipped encoder. Every server is a separate
process on this machine, so the aggregator's latency is that of five processes on the same cores. Answers are
compared with those of a single index with the same leaves and codes. The default, 2 million tokens, takes
four minutes on two cores; `--small` uses fewer tokens, and `--millions 20` is the full size.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "index"), str(HERE.parent / "serve")]

from server import Server, started  # noqa: E402
from workload import write_vectors  # noqa: E402

from serving.client import Client, ClientError  # noqa: E402
from xtr_tf.model.folder import read_manifest  # noqa: E402
from xtr_tf.model.shipped import shipped_models  # noqa: E402
from xtr_tf.retriever.collection_file import read_collection  # noqa: E402

PARTITIONS = 4
QUERIES = 500
SECONDS_TO_MOVE = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=2, help="tokens, in millions")
    parser.add_argument("--small", action="store_true", help="0.4 million tokens, 100 queries")
    parser.add_argument("--folder", type=Path, default=Path(".bench/scale"))
    arguments = parser.parse_args()
    millions, count = (0.4, 100) if arguments.small else (arguments.millions, QUERIES)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores", flush=True)
    folder = arguments.folder / f"{millions:g}m"
    encoder = shipped_models()["mxtr_tiny"]
    vectors = write_vectors(folder / "vectors", int(millions * 1e6), read_manifest(encoder).fingerprint)
    built = _built(folder)
    tokens = vectors.num_tokens / 1e6
    print(
        f"build: {built['seconds']:.0f} s ({built['cpu_seconds']:.0f} s of CPU) for {tokens:g}M tokens, peak "
        f"{built['peak_gb']:.2f} GB of the largest process",
        flush=True,
    )
    collection, single = folder / "collection", folder / "single"
    for out, partitions in ((collection, PARTITIONS), (single, 1)):
        shutil.rmtree(out, ignore_errors=True)
        seconds = _run("export", encoder, folder / "vectors", folder / "index", out, partitions)["seconds"]
        print(f"export of {partitions}: {seconds:.0f} s", flush=True)
    queries = _queries(count)
    with _serving(collection, single) as (servers, aggregator, alone):
        found = _ask(aggregator, queries)
        expected = _ask(alone, queries)
        overlap = statistics.mean(
            len(set(ours) & set(theirs)) / max(len(theirs), 1)
            for ours, theirs in zip(found.documents, expected.documents, strict=True)
        )
        print(
            f"{len(queries)} queries: p50 {found.p50 * 1e3:.1f} ms of the aggregator, "
            f"{expected.p50 * 1e3:.1f} ms of one server",
            flush=True,
        )
        failed, mixed = _promote(collection, aggregator, queries)
        print(f"promotion: {failed} requests failed, {mixed} answered by more than one version", flush=True)
        killed_ok = _kill_one(collection, servers, aggregator, queries[0])
    print(
        f"RESULT bench-scale overlap_with_single={overlap:.3f} build_s_per_m={built['seconds'] / tokens:.1f} "
        f"peak_gb_worker={built['peak_gb']:.2f} "
        f"bytes_per_token_ram={_bytes_per_token(collection, single):.0f} "
        f"aggregate_p50_ratio={found.p50 / expected.p50:.2f} promotion_failed={failed + mixed} "
        f"partition_killed_ok={killed_ok:d}"
    )


def _built(folder: Path) -> dict[str, float]:
    """Returns the measurements of the build, which is kept for later runs."""
    measured = folder / "build.json"
    if not measured.is_file():
        shutil.rmtree(folder / "index", ignore_errors=True)
        measured.write_text(json.dumps(_run("build", folder / "vectors", folder / "index")))
    kept: dict[str, float] = json.loads(measured.read_bytes())
    return kept


def _run(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    answer: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return answer


def _queries(count: int) -> list[str]:
    lines = (HERE.parents[1] / "examples" / "atlas" / "queries.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines[:count]]


@contextlib.contextmanager
def _serving(collection: Path, single: Path) -> Iterator[tuple[list[Server], str, str]]:
    """Four servers of partitions, the aggregator, and one server with the whole index."""
    flags = ("--keep-versions", "2", "--prefer-tensor-content")
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(started("--model-base", str(collection / f"partition-{number}"), *flags))
            for number in range(PARTITIONS)
        ]
        addresses = [f"--partition={number}={server.target}" for number, server in enumerate(servers)]
        file = str(collection / "collection.json")
        aggregator = stack.enter_context(started("--collection", file, *addresses))
        alone = stack.enter_context(started("--model-base", str(single)))
        yield servers, aggregator.target, alone.target


@dataclasses.dataclass(frozen=True)
class Answers:
    """Returns what a server found, and how fast: ids by query, and the median of the seconds."""

    documents: list[list[str]]
    p50: float


def _ask(target: str, queries: list[str]) -> Answers:
    documents, seconds = [], []
    with Client(target, timeout=60) as client:
        for query in queries[:10]:
            client.search(query)
        for query in queries:
            began = time.perf_counter()
            documents.append([hit.id for hit in client.search(query).documents])
            seconds.append(time.perf_counter() - began)
    return Answers(documents, statistics.median(seconds))


def _promote(collection: Path, target: str, queries: list[str]) -> tuple[int, int]:
    """Publishes the next version during queries; counts those that failed or mixed versions."""
    versions: list[tuple[int, ...]] = []
    failures: list[str] = []
    moved = threading.Event()

    def ask() -> None:
        with Client(target, timeout=60, attempts=1) as client:
            while not moved.is_set():
                for query in queries:
                    try:
                        versions.append(client.search(query).versions)
                    except ClientError as error:
                        failures.append(str(error))
                    if moved.is_set():
                        break

    asking = threading.Thread(target=ask)
    asking.start()
    before = read_collection(collection / "collection.json")
    after = before.version + 1
    for entry in before.partitions:
        base = collection / entry.path
        # Servers ignore names that are not numbers.
        shutil.copytree(base / str(before.version), base / f".{after}", copy_function=os.link)
        (base / f".{after}").rename(base / str(after))
    entries = tuple(dataclasses.replace(entry, version=after) for entry in before.partitions)
    dataclasses.replace(before, version=after, partitions=entries).write(collection)
    deadline = time.monotonic() + SECONDS_TO_MOVE
    while (after,) not in versions and time.monotonic() < deadline:
        time.sleep(0.1)
    moved.set()
    asking.join()
    for failure in failures[:3]:
        print(failure)
    return len(failures) + ((after,) not in versions), sum(len(answered) != 1 for answered in versions)


def _kill_one(collection: Path, servers: list[Server], target: str, query: str) -> bool:
    """Checks that a killed server is noticed, reported, and asked again when it is back."""
    last = servers[-1]
    last.process.kill()
    last.process.wait()
    with Client(target, timeout=60, attempts=1) as client:
        refused = False
        try:
            client.search(query)
        except ClientError as error:
            refused = f"Partition {PARTITIONS - 1} did not answer" in error.message
        partial = client.predict("search", {"query": [query], "partial": ["allow"]})
        told = list(partial.outputs["missing_partitions"].values) == [str(PARTITIONS - 1).encode()]
        flags = ("--keep-versions", "2", "--port", last.target.rpartition(":")[2])
        with started("--model-base", str(collection / f"partition-{PARTITIONS - 1}"), *flags):
            deadline = time.monotonic() + SECONDS_TO_MOVE
            back = False
            while not back and time.monotonic() < deadline:
                with contextlib.suppress(ClientError):
                    back = bool(client.search(query).documents)
                time.sleep(0.1)
    print(f"killed: refused {refused}, told in a partial answer {told}, back {back}", flush=True)
    return refused and told and back


def _bytes_per_token(collection: Path, single: Path) -> float:
    """Bytes of memory per token, from the growth of the gate's processes when they loaded the models.

    Four partitions and one model have the same tokens, but fixed parts such as the encoder 4 times and once.
    """
    known = read_collection(collection / "collection.json")
    folders = [collection / entry.path / str(entry.version) for entry in known.partitions]
    parts, whole = (
        sum(json.loads((at / "model_card.json").read_bytes())["memory"]["resident_bytes"] for at in places)
        for places in (folders, [single / "1"])
    )
    fixed = (parts - whole) / (len(folders) - 1)
    return float((whole - fixed) / known.tokens)


if __name__ == "__main__":
    main()
