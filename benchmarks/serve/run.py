"""`make bench-serve`: the cost of serving compared with in-process calls, and behaviour under load.

Server and client are separate processes and talk over loopback. The soak publishes three versions while it
runs. All output is kept in `report.txt` in the work folder.

The first run also builds the indexes. `benchmarks/README.md` says how long a run takes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from against import checked_out, measure_against
from report import Report
from server import COMMAND, HERE, client, serving
from soak import measure_soak
from swap import measure_swaps

from serving.client import Client

ROOT = HERE.parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".bench/serve"))
    parser.add_argument("--rounds", type=int, default=20, help="blocks of 50 requests per way of calling")
    parser.add_argument("--requests", type=int, default=3000, help="requests per load")
    parser.add_argument("--soak", type=int, default=100_000, help="requests of the soak")
    parser.add_argument("--soak-minutes", type=float, default=30, help="when to give up on the soak")
    parser.add_argument("--against", metavar="COMMIT", help="also measure the server of an earlier commit")
    parser.add_argument(
        "--only", choices=("all", "against", "swaps"), default="all", help="run only one part"
    )
    options = parser.parse_args()
    make_models(options.folder)
    with Report(options.folder / "report.txt") as report:
        report.say(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        packages = ("tensorflow", "scann", "grpcio", "protobuf")
        report.say(" ".join(f"{name} {version(name)}" for name in packages))
        measure(options, report)


def measure(options: argparse.Namespace, report: Report) -> None:
    atlas, million = options.folder / "atlas", options.folder / "million"
    compared = {}
    if options.against and options.only != "swaps":
        ratio = measure_against(options.against, atlas, options.requests, report)
        compared["qps16_ratio"] = f"{ratio:.2f}"
    if options.only != "against":
        if options.against:
            tree = checked_out(options.against, options.folder)
            report.say(f"with the server of {options.against}:")
            measure_swaps(atlas / "1", options.folder, report, tree)
            report.say("with this one:")
        swap_max_ms, _ = measure_swaps(atlas / "1", options.folder, report)
        compared["swap_max_ms"] = f"{swap_max_ms:.0f}"
    found = "".join(f" {name}={value}" for name, value in compared.items())
    if options.only != "all":
        report.say(f"RESULT bench-serve{found}")
        return
    start_s = measure_start(atlas, report)
    query_cli_s = measure_command(atlas, report)
    overhead_ms = measure_overhead(options, atlas, report)
    for base in (atlas, million):
        measure_loads(options, base, report)
    gain = measure_batching(options, atlas, report)
    measure_batching(options, million, report)
    failed, ratio = measure_soak(options.folder, options.soak, options.soak_minutes, report)
    report.say(
        f"RESULT bench-serve grpc_overhead_ms={overhead_ms:.2f} batching_gain={gain:.2f} "
        f"soak_failed={failed} rss_ratio={ratio:.3f} start_s={start_s:.1f} "
        f"query_cli_s={query_cli_s:.2f}{found}"
    )


def make_models(folder: Path) -> None:
    """Exports the models, unless the current code has already done so."""
    sources = [HERE / "models.py", *sorted((ROOT / "xtr_tf").rglob("*.py"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    stamp = folder / "models.sha256"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    for name in ("atlas", "million", "marked"):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-W", "ignore", HERE / "models.py", folder], check=True, timeout=3600)
    stamp.write_text(digest)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def measure_start(base: Path, report: Report) -> float:
    """Seconds from the start of the process to the first answer, with a client that is already running."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        with serving(base) as server, Client(server.target, attempts=100) as asked:
            asked.search("highest mountain")
            times.append(time.perf_counter() - start)
            used, resident = server.processor_seconds(), server.resident_mb()
        report.say(
            f"start to first answer {times[-1]:.2f} s ({used:.2f} s of processor time), "
            f"resident {resident:.0f} MB"
        )
    return statistics.median(times)


def measure_command(base: Path, report: Report) -> float:
    """Seconds that the whole command `xtr-tf query` takes."""
    times = []
    with serving(base) as server:
        for _ in range(7):
            start = time.perf_counter()
            command = [COMMAND, "query", "highest mountain", "--server", server.target]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
            times.append(time.perf_counter() - start)
    report.say(f"xtr-tf query: {statistics.median(times):.2f} s, at worst {max(times):.2f} s")
    return statistics.median(times)


def measure_overhead(options: argparse.Namespace, base: Path, report: Report) -> float:
    with serving(base) as server:
        found = client("load.py", "alternate", server.target, server.rest_port, base / "1", options.rounds)
    for way in ("in_process", "grpc", "rest", "empty", "in_process_paused", "empty_paused"):
        report.say(f"{way:17} p50 {found[f'{way}_p50_ms']:.2f} ms  p99 {found[f'{way}_p99_ms']:.2f} ms")
    overhead: float = found["grpc_p50_ms"] - found["in_process_p50_ms"]
    rest = found["rest_p50_ms"] - found["in_process_p50_ms"]
    woken = found["in_process_paused_p50_ms"] - found["in_process_p50_ms"]
    report.say(f"overhead at p50: gRPC {overhead:.2f} ms, REST {rest:.2f} ms")
    report.say(
        f"of which, where caller and model have paused: an empty call {found['empty_paused_p50_ms']:.2f} ms, "
        f"the model's own slower start {woken:.2f} ms"
    )
    return overhead


def measure_loads(options: argparse.Namespace, base: Path, report: Report) -> None:
    with serving(base) as server:
        for concurrency in (1, 4, 16):
            found = client("load.py", "load", server.target, concurrency, options.requests)
            report.say(
                f"{base.name:8} concurrency {concurrency:2}: p50 {found['p50_ms']:.2f} ms"
                f"  p99 {found['p99_ms']:.2f} ms  {found['queries_per_second']:.0f} queries/s"
            )
        report.say(f"{base.name:8} resident {server.resident_mb():.0f} MB afterwards")


def measure_batching(options: argparse.Namespace, base: Path, report: Report) -> float:
    """Queries per second at concurrency 16 with batches, divided by those without, in turns."""
    bare = client("load.py", "batches", base / "1", 5)
    report.say(
        f"{base.name:8} in-process, batches of 8 and 16 over single queries: "
        f"{bare['batch_8'] / bare['batch_1']:.2f}, {bare['batch_16'] / bare['batch_1']:.2f}"
    )
    rates: dict[str, list[float]] = {"32": [], "1": []}
    with (
        serving(base, "--max-batch-size", "32") as batching,
        serving(base, "--max-batch-size", "1") as single,
    ):
        for _ in range(3):
            for size, server in (("32", batching), ("1", single)):
                found = client("load.py", "load", server.target, 16, options.requests)
                rates[size].append(found["queries_per_second"])
    with_batches, without = statistics.median(rates["32"]), statistics.median(rates["1"])
    gain = with_batches / without
    report.say(
        f"{base.name:8} concurrency 16: {with_batches:.0f} queries/s with batches, {without:.0f} without: "
        f"{gain:.2f} times as many"
    )
    return gain


if __name__ == "__main__":
    main()
