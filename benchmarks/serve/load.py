"""The client side of the measurements, in its own process.

    python load.py alternate TARGET REST_PORT MODEL_DIRECTORY ROUNDS
    python load.py load TARGET CONCURRENCY REQUESTS
    python load.py batches MODEL_DIRECTORY ROUNDS

Prints one JSON object. `alternate` calls the model in this process, over gRPC and over REST in turns, so that
other load on the machine affects all three. Empty calls in between measure the cost of gRPC in Python itself.
Both are repeated after a pause: over a network, caller and model wait for each other, and the one that waited
starts with cold caches on a sleeping core. `batches` calls the model in this process with one query and with
many, which shows what batching could gain if serving were free.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.client import AsyncClient, Client
from xtr_tf.runtime import SavedModelSession

ATLAS = Path(__file__).resolve().parents[2] / "examples" / "atlas"
BLOCK = 50
PAUSE_SECONDS = 0.004


def _session(directory: str) -> SavedModelSession:
    """The model in this process, with the kernels that the server uses."""
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    return SavedModelSession(directory)


def queries() -> list[str]:
    lines = (ATLAS / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def alternate(target: str, rest_port: int, directory: str, rounds: int) -> dict[str, float]:
    session = _session(directory)
    client = Client(target)
    connection = http.client.HTTPConnection("127.0.0.1", rest_port)
    health = health_pb2_grpc.HealthStub(grpc.insecure_channel(target))

    def over_rest(query: str) -> None:
        connection.request("POST", "/v1/models/default:predict", json.dumps({"instances": [query]}))
        json.loads(connection.getresponse().read())

    def in_process(query: str) -> None:
        session.run("serving_default", {"query": [query]})

    def empty(_: str) -> None:
        health.Check(health_pb2.HealthCheckRequest())

    ways: dict[str, tuple[Callable[[str], object], float]] = {
        "in_process": (in_process, 0),
        "grpc": (client.search, 0),
        "rest": (over_rest, 0),
        "empty": (empty, 0),
        "in_process_paused": (in_process, PAUSE_SECONDS),
        "empty_paused": (empty, PAUSE_SECONDS),
    }
    texts = queries()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(-1, rounds):  # the first is not counted
        for name, (call, pause) in ways.items():
            for number in range(BLOCK):
                query = texts[(max(round_number, 0) * BLOCK + number) % len(texts)]
                time.sleep(pause)
                start = time.perf_counter()
                call(query)
                if round_number >= 0:
                    times[name].append(time.perf_counter() - start)
    return {
        f"{name}_{label}_ms": percentile(values, share) * 1e3
        for name, values in times.items()
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }


def load(target: str, concurrency: int, requests: int) -> dict[str, float]:
    return asyncio.run(_load(target, concurrency, requests))


async def _load(target: str, concurrency: int, requests: int) -> dict[str, float]:
    texts = queries()
    times: list[float] = []
    remaining = iter(range(requests))

    async with AsyncClient(target, timeout=60) as client:

        async def work() -> None:
            for number in remaining:
                start = time.perf_counter()
                await client.search(texts[number % len(texts)])
                times.append(time.perf_counter() - start)

        await client.search(texts[0])
        begin = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        seconds = time.perf_counter() - begin
    return {
        "p50_ms": percentile(times, 0.5) * 1e3,
        "p99_ms": percentile(times, 0.99) * 1e3,
        "queries_per_second": requests / seconds,
    }


def batches(directory: str, rounds: int) -> dict[str, float]:
    session = _session(directory)
    texts = queries()
    rates: dict[int, list[float]] = {1: [], 8: [], 16: []}
    for round_number in range(-1, rounds):  # the first is not counted
        for size, measured in rates.items():
            start = time.perf_counter()
            for first in range(0, 160, size):
                session.run("serving_default", {"query": texts[first : first + size]})
            if round_number >= 0:
                measured.append(160 / (time.perf_counter() - start))
    return {f"batch_{size}": statistics.median(measured) for size, measured in rates.items()}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    if mode == "alternate":
        result = alternate(arguments[0], int(arguments[1]), arguments[2], int(arguments[3]))
    elif mode == "batches":
        result = batches(arguments[0], int(arguments[1]))
    else:
        result = load(arguments[0], int(arguments[1]), int(arguments[2]))
    print(json.dumps(result))
