"""How long the slowest answer takes while a version is swapped for the next.

    python swap.py TARGET

sends queries at concurrency 4 until it reads a line, and prints when each was sent and how long it took.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from load import percentile, queries
from report import Report
from server import HERE, serving

from serving.client import AsyncClient, Client

CONCURRENCY = 4
SWAPS = 5
CALM_SECONDS = 4.0


def measure_swaps(model: Path, folder: Path, report: Report, tree: Path | None = None) -> tuple[float, float]:
    """Returns the slowest answer of all swaps, and the 99th percentile between them, in milliseconds.

    Args:
        model: A version with the warm-up requests of an export.
        folder: The folder to serve copies of it from.
        report: The report to which every swap is added.
        tree: The folder of the server's code; this one's by default.
    """
    base = folder / "swaps"
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(model, base / "1")
    with serving(base, "--poll-seconds", "0.2", tree=tree) as server, Client(server.target) as asked:
        command = [sys.executable, HERE / "swap.py", server.target]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        spans = []
        for number in range(2, 2 + SWAPS):
            time.sleep(CALM_SECONDS)
            shutil.copytree(model, base / f".{number}.partial")
            start = time.monotonic()
            (base / f".{number}.partial").rename(base / str(number))
            while asked.status().get(number - 1) != "END":
                time.sleep(0.02)
            spans.append((start, time.monotonic()))
        time.sleep(CALM_SECONDS)
        answers = [tuple(pair) for pair in json.loads(process.communicate("\n", timeout=60)[0])]
    slowest = [max(_during(answers, span)) for span in spans]
    calm = [took for begun, took in answers if not any(begun + took > a and begun < b for a, b in spans)]
    p99 = percentile(calm, 0.99) * 1e3
    report.say(
        f"swaps at concurrency {CONCURRENCY}: slowest answers "
        + ", ".join(f"{seconds * 1e3:.0f}" for seconds in slowest)
        + f" ms while loading took {', '.join(f'{end - start:.1f}' for start, end in spans)} s; "
        f"p99 between them {p99:.0f} ms"
    )
    return max(slowest) * 1e3, p99


def _during(answers: list[tuple[float, float]], span: tuple[float, float]) -> list[float]:
    return [took for begun, took in answers if begun + took > span[0] and begun < span[1]]


async def ask(target: str) -> list[tuple[float, float]]:
    texts = queries()
    answers: list[tuple[float, float]] = []
    stopping = asyncio.Event()

    async def work(worker: int) -> None:
        number = worker
        while not stopping.is_set():
            begun = time.monotonic()
            await client.search(texts[number % len(texts)])
            answers.append((begun, time.monotonic() - begun))
            number += CONCURRENCY

    async with AsyncClient(target, timeout=60, attempts=1) as client:
        workers = [asyncio.create_task(work(number)) for number in range(CONCURRENCY)]
        await asyncio.to_thread(sys.stdin.readline)
        stopping.set()
        await asyncio.gather(*workers)
    return answers


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(sys.argv[1]))))
