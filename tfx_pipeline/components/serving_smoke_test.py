"""The smoke test of a model: served by a real server in a process of its own, and asked over gRPC.

Decides whether `ServingValidator` blesses. Knows nothing of TFX. Problems are phrases; none if all is right.
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
from xtr_tf.processes import child_environment
from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.gate import verify_model
from xtr_tf.retriever.reference_cases import ReferenceCase, read_reference

_VERSION = "1"
# The exporter's requests are few and known: the limits that protect a public server are not for them.
_SERVE = ("serve", "--port", "0", "--rest-port", "-1", "--poll-seconds", "0", "--max-k-prime", "100000000")
_START = "from xtr_tf.cli import main; main()"
_REQUEST_SECONDS = 60.0
_STOP_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class ServingSmokeTest:
    """What the test found.

    Attributes:
        problems: What was wrong.
        answers: Reference answers that were compared over gRPC.
        latency_ms: Of single queries, at the quantile that the settings name; None if an answer was wrong.
        load_seconds: What loading took in the fresh process; None if it did not end well.
    """

    problems: tuple[str, ...]
    answers: int = 0
    latency_ms: float | None = None
    load_seconds: float | None = None


def run_smoke_test(directory: Path, settings: ServingCheckSettings) -> ServingSmokeTest:
    """Loads a model as TensorFlow Serving does, then serves it and asks it what its exporter asked.

    Args:
        directory: One version of a model.
        settings: How fast it must be.

    Returns:
        Load time, latencies, and what is wrong.
    """
    try:
        report = verify_model(directory)
        if not report.passed:
            return ServingSmokeTest(tuple(report.problems), load_seconds=report.load_seconds)
        cases = read_reference(directory).cases
        with _served(directory, settings.load_timeout_seconds) as target, _client(target) as client:
            sendable = [case for case in cases if _is_sendable(case)]
            problems = [wrong for case in sendable for wrong in _replay(client, case)]
            latency = None if problems else _latency(client, cases, settings)
    except (InputError, ClientError) as error:
        return ServingSmokeTest((str(error),))
    if latency is not None and latency > settings.latency_ms:
        problems.append(
            f"{settings.latency_quantile:.0%} of queries took up to {latency:.0f} ms, "
            f"and {settings.latency_ms:.0f} ms are allowed"
        )
    return ServingSmokeTest(tuple(problems), len(sendable), latency, report.load_seconds)


@contextlib.contextmanager
def _served(directory: Path, seconds: float) -> Iterator[str]:
    """Starts `xtr-tf serve` on a free loopback port and yields its address."""
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryFile("w+") as log:
        Path(base, _VERSION).symlink_to(directory.resolve(), target_is_directory=True)
        command = [sys.executable, "-c", _START, *_SERVE, "--model-base", base]
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
                    f"{log.read().strip()[-300:]!r}. Received: {directory}."
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
    """Whether the client can send it: it knows no matrices."""
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
    """Milliseconds within which the quantile of single queries was answered."""
    texts = [text for case in cases if case.signature == "serving_default" for text in case.inputs["query"]]
    queries = sorted({text for text in texts if text.strip()})
    spent = []
    for query in queries * settings.rounds:
        started = time.perf_counter()
        client.predict("serving_default", {"query": [query]})
        spent.append(1000 * (time.perf_counter() - started))
    return float(np.quantile(spent, settings.latency_quantile))
