"""Compares this server with that of an earlier commit, in turns, with the same client and model."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from report import Report
from server import HERE, Server, client, serving

sys.path.append(str(HERE.parent))  # what the benchmarks share

from earlier_commit import checked_out

ROUNDS = 3


def measure_against(commit: str, base: Path, requests: int, report: Report) -> float:
    """Returns the throughput of this server at concurrency 16, divided by that of the earlier commit."""
    trees = {"before": checked_out(commit, base.parent), "now": HERE.parents[1]}
    rates: dict[tuple[str, int], list[float]] = {}
    waits: dict[tuple[str, int], list[float]] = {}
    costs: dict[tuple[str, int], list[float]] = {}
    with serving(base, tree=trees["before"]) as before, serving(base) as now:
        for _ in range(ROUNDS):
            for concurrency in (1, 16):
                for name, server in (("before", before), ("now", now)):
                    found, cost = _ask(server, concurrency, requests)
                    rates.setdefault((name, concurrency), []).append(found["queries_per_second"])
                    waits.setdefault((name, concurrency), []).append(found["p50_ms"])
                    costs.setdefault((name, concurrency), []).append(cost)
    for name, concurrency in rates:
        key = (name, concurrency)
        whose = commit[:12] if name == "before" else "this code"
        report.say(
            f"{base.name:8} {whose:12} concurrency {concurrency:2}: "
            f"p50 {statistics.median(waits[key]):.2f} ms  {statistics.median(rates[key]):.0f} queries/s  "
            f"{statistics.median(costs[key]):.2f} ms of the server's processor time per query"
        )
    return statistics.median(rates["now", 16]) / statistics.median(rates["before", 16])


def _ask(server: Server, concurrency: int, requests: int) -> tuple[dict[str, float], float]:
    used = server.processor_seconds()
    found = client("load.py", "load", server.target, concurrency, requests)
    return found, (server.processor_seconds() - used) / requests * 1e3
