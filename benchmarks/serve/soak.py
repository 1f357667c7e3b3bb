"""The soak from outside: publishes versions under load and watches the memory of the server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from report import Report
from server import HERE, Server, serving

CONCURRENCY = 16
PROGRESS = 5_000


def measure_soak(folder: Path, requests: int, minutes: float, report: Report) -> tuple[int, float]:
    """Returns the number of valid requests that failed, and the final memory relative to the first swap."""
    base = folder / "swapped"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    publish(folder, base, 1)
    with serving(base, "--poll-seconds", "0.2") as server:
        command = [sys.executable, HERE / "soak_client.py", server.target, str(requests), str(CONCURRENCY)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            watch = _Watch(folder, base, server, requests, time.monotonic() + 60 * minutes, report)
            assert process.stdout is not None
            for line in process.stdout:
                watch.take(json.loads(line))
            process.wait()
        finally:
            process.kill()
        ratio = server.resident_mb() / watch.after_first_swap
    answer = watch.last
    report.say(
        f"soak: {requests:,} requests in {watch.seconds / 60:.1f} minutes with 3 swaps: "
        f"{answer['answered']:,} answered, {answer['refused']:,} malformed refused, "
        f"{answer['failed']} failed, {answer['mixed']} mixed"
    )
    for failure in answer["first_failures"]:
        report.say(f"failed: {failure}")
    report.say(
        f"resident {watch.after_first_swap:.0f} MB after the first swap, {ratio:.3f} times as much at the end"
    )
    if answer["mixed"]:
        raise SystemExit("bench-serve: an answer came from two versions.")
    if answer["versions"] != [1, 2, 3, 4]:
        raise SystemExit(f"bench-serve: a version never took traffic; these did: {answer['versions']}.")
    return int(answer["failed"]), ratio


def publish(folder: Path, base: Path, number: int) -> None:
    """Copies a version aside and renames it, as a pusher does."""
    staging = base / f".{number}.partial"
    shutil.copytree(folder / "marked" / str(number), staging)
    staging.rename(base / str(number))


class _Watch:
    """Takes the client's lines as they come."""

    def __init__(
        self, folder: Path, base: Path, server: Server, requests: int, deadline: float, report: Report
    ) -> None:
        self._folder, self._base, self._server, self._report = folder, base, server, report
        self._swaps = {requests // 4: 2, requests // 2: 3, 3 * requests // 4: 4}
        # Halfway between the first two swaps, the first is over.
        self._first_swap_over = 3 * requests // 8
        self._requests = requests
        self._began, self._deadline = time.monotonic(), deadline
        self.after_first_swap = 0.0
        self.last: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    def take(self, line: dict[str, Any]) -> None:
        self.last = line
        number = line.get("number")
        if number is None:
            return
        if time.monotonic() > self._deadline:
            raise SystemExit(
                f"bench-serve: the soak was given up after {number:,} requests; it took too long."
            )
        for at in [at for at in self._swaps if number >= at]:
            publish(self._folder, self._base, self._swaps.pop(at))
        if not self.after_first_swap and number >= self._first_swap_over:
            self.after_first_swap = self._server.resident_mb()
        if number % PROGRESS == 0:
            self._report.show_progress(
                f"  {number:,} of {self._requests:,} requests, {self.seconds / 60:.1f} minutes, "
                f"resident {self._server.resident_mb():.0f} MB"
            )
