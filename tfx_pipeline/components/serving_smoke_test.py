"""The smoke test of a model: a real server in its own process serves it, and a client sends gRPC requests.

Decides whether `ServingValidator` blesses. Knows nothing about TFX. Problems are phrases. A model without
problems passed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serving.client import Client, ClientError, Tensor
from tfx_pipeline.config import ServingCheckSettings
from xtr_tf.errors import InputError
from xtr_tf.evaluation.exported_collection import Fetch
from xtr_tf.processes import child_environment
from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.collection_file import COLLECTION_FILE, Collection
from xtr_tf.retriever.gate import verify_model
from xtr_tf.retriever.reference_cases import ReferenceCase, read_reference

_VERSION = "1"
# The exporter's requests are few and known, so the limits that protect a public server do not apply.
_SERVE = ("serve", "--port", "0", "--rest-port", "-1", "--max-k-prime", "100000000")
_START = "from xtr_tf.cli import main; main()"
_REQUEST_SECONDS = 60.0
_STOP_SECONDS = 30.0
# An aggregator asks a server that is up for its fingerprints when it starts, and then every second.
_ACCEPT_SECONDS = 15.0
_LOOK_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class ServingSmokeTest:
    """Result of the test.

    Attributes:
        problems: Problems that were found.
        answers: Number of reference answers that were compared over gRPC.
        latency_ms: Latency of single queries at the quantile of the settings. None if an answer was wrong.
        load_seconds: Time to load the model in the fresh process. None if loading failed.
    """

    problems: tuple[str, ...]
    answers: int = 0
    latency_ms: float | None = None
    load_seconds: float | None = None


def run_smoke_test(directory: Path, settings: ServingCheckSettings) -> ServingSmokeTest:
    """Loads a model as TensorFlow Serving does, then serves it and repeats the requests of its exporter.

    Args:
        directory: Directory of one version of a model.
        settings: Latency that the model must reach, and timeouts.

    Returns:
        Load time, latency and problems.
    """
    with contextlib.ExitStack() as stack:
        return _test_model(stack, directory, settings)[0]


def _test_model(
    stack: contextlib.ExitStack, directory: Path, settings: ServingCheckSettings
) -> tuple[ServingSmokeTest, str]:
    """Tests a model, and returns the result with the address of its server, which runs until `stack` ends."""
    try:
        report = verify_model(directory)
        if not report.passed:
            return ServingSmokeTest(tuple(report.problems), load_seconds=report.load_seconds), ""
        cases = read_reference(directory).cases
        target = stack.enter_context(_served(directory, settings.load_timeout_seconds))
        with _client(target) as client:
            sendable = [case for case in cases if _is_sendable(case)]
            problems = [wrong for case in sendable for wrong in _replay(client, case)]
            latency = None if problems else _latency(client, cases, settings)
    except (InputError, ClientError) as error:
        return ServingSmokeTest((str(error),)), ""
    problems += _too_slow(latency, settings)
    return ServingSmokeTest(tuple(problems), len(sendable), latency, report.load_seconds), target


def run_collection_test(
    collection: Collection, fetch: Fetch, settings: ServingCheckSettings
) -> ServingSmokeTest:
    """Tests a collection, one partition after the other, so that one machine is enough.

    Each partition is tested as a model. Then an aggregator that is configured with this partition as the
    whole collection must accept it as described by `collection.json`, and return the partition's own answers.

    Args:
        collection: Content of `collection.json`.
        fetch: Provides the model of a partition, by its path, while it is tested.
        settings: Latency that an aggregator with one partition must reach, and timeouts.

    Returns:
        Load time and latency of the slowest partition, and the problems of the first partition that has any.
    """
    tests = []
    for number, entry in enumerate(collection.partitions):
        with fetch(f"{entry.path}/{entry.version}") as model:
            tests.append(_test_partition(model, collection, number, settings))
        if tests[-1].problems:
            break
    latencies = [test.latency_ms for test in tests if test.latency_ms is not None]
    loads = [test.load_seconds for test in tests if test.load_seconds is not None]
    return ServingSmokeTest(
        tests[-1].problems,
        sum(test.answers for test in tests),
        max(latencies) if len(latencies) == len(collection.partitions) else None,
        max(loads, default=None),
    )


def _test_partition(
    model: Path, collection: Collection, number: int, settings: ServingCheckSettings
) -> ServingSmokeTest:
    entry = collection.partitions[number]
    only = dataclasses.replace(
        collection, version=1, partitions=(dataclasses.replace(entry, version=1),)
    ).to_json()
    with contextlib.ExitStack() as stack:
        alone, target = _test_model(stack, model, settings)
        if alone.problems:
            return dataclasses.replace(alone, problems=_of_partition(number, alone.problems))
        try:
            cases = [case for case in read_reference(model).cases if case.signature == "serving_default"]
            file = Path(stack.enter_context(tempfile.TemporaryDirectory()), COLLECTION_FILE)
            file.write_bytes(only)
            told = ("--collection", str(file), "--partition", f"0={target}", "--poll-seconds", "1")
            aggregator = stack.enter_context(_server(told, settings.load_timeout_seconds))
            client = stack.enter_context(_client(aggregator))
            _wait_for_collection(client)
            problems = [wrong for case in cases for wrong in _replay(client, case)]
            latency = None if problems else _latency(client, cases, settings)
        except (InputError, ClientError) as error:
            return ServingSmokeTest(_of_partition(number, [str(error)]))
    problems += _too_slow(latency, settings)
    return ServingSmokeTest(
        _of_partition(number, problems), alone.answers + len(cases), latency, alone.load_seconds
    )


def _of_partition(number: int, problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"partition {number}: {problem}" for problem in problems)


def _wait_for_collection(client: Client) -> None:
    """Waits until the aggregator has accepted its partition, whose server is already up."""
    deadline = time.monotonic() + _ACCEPT_SECONDS
    while True:
        try:
            client.predict("serving_default", {"query": ["a"]})
            return
        except ClientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def _too_slow(latency: float | None, settings: ServingCheckSettings) -> list[str]:
    if latency is None or latency <= settings.latency_ms:
        return []
    return [
        f"{settings.latency_quantile:.0%} of queries took up to {latency:.0f} ms, "
        f"and {settings.latency_ms:.0f} ms are allowed"
    ]


@contextlib.contextmanager
def _served(directory: Path, seconds: float) -> Iterator[str]:
    """Serves one version of a model and yields the server's address."""
    with tempfile.TemporaryDirectory() as base:
        Path(base, _VERSION).symlink_to(directory.resolve(), target_is_directory=True)
        with _server(("--model-base", base, "--poll-seconds", "0"), seconds) as target:
            yield target


@contextlib.contextmanager
def _server(told: Sequence[str], seconds: float) -> Iterator[str]:
    """Starts `xtr-tf serve` on a free loopback port and yields its address."""
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", _START, *_SERVE, *told]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=child_environment()
        )
        impatience = threading.Timer(seconds, process.kill)
        impatience.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            impatience.cancel()
            found = re.search(r"gRPC ([\d.]+:\d+)", line)
            if not found:
                log.seek(0)
                raise InputError(
                    f"The server did not start within {seconds:.0f} s; its last output: "
                    f"{log.read().strip()[-300:]!r}. Received: {' '.join(told)}."
                )
            yield found[1]
        finally:
            impatience.cancel()
            _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _client(target: str) -> Client:
    return Client(target, timeout=_REQUEST_SECONDS, attempts=1)


def _is_sendable(case: ReferenceCase) -> bool:
    """Returns whether the client can send the case. It does not support matrices."""
    return all(array.ndim <= 1 for array in case.inputs.values())


def _replay(client: Client, case: ReferenceCase) -> list[str]:
    inputs: dict[str, Any] = {name: array.tolist() for name, array in case.inputs.items()}
    try:
        outputs = client.predict(case.signature, inputs).outputs
    except ClientError as error:
        return [f"`{case.signature}` over gRPC: {error}"]
    answer = {name: _array(tensor, case.outputs.get(name)) for name, tensor in outputs.items()}
    return [f"`{case.signature}` over gRPC: {wrong}" for wrong in differences(case, answer)]


def _array(tensor: Tensor, expected: np.ndarray | None) -> np.ndarray:
    dtype = expected.dtype if expected is not None else np.dtype(object)
    return np.array(list(tensor.values), dtype).reshape(tensor.shape)


def _latency(client: Client, cases: Sequence[ReferenceCase], settings: ServingCheckSettings) -> float:
    """Returns the latency of single queries in milliseconds, at the quantile of the settings."""
    texts = [text for case in cases if case.signature == "serving_default" for text in case.inputs["query"]]
    queries = sorted({text for text in texts if text.strip()})
    spent = []
    for query in queries * settings.rounds:
        started = time.perf_counter()
        client.predict("serving_default", {"query": [query]})
        spent.append(1000 * (time.perf_counter() - started))
    return float(np.quantile(spent, settings.latency_quantile))
