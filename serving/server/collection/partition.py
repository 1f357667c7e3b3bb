"""The servers of one partition. Calls go to the least busy server, and to another if it fails or is slow.

A call that takes longer than 95% of the recent calls of its kind is also sent to a second server. The first
answer counts, so that one slow server does not slow down every answer. Knows nothing about the content of
calls.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from serving.server.collection.metrics import PartitionMetrics
from serving.server.collection.replica import Replica
from serving.server.status import Code, RequestError

# Status codes after which another server may still answer.
_MAY_PASS = (
    Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED,
    Code.RESOURCE_EXHAUSTED,
    Code.NOT_FOUND,
    Code.CANCELLED,
    Code.INTERNAL,
)
_REMEMBERED = 256
_ENOUGH_TO_HEDGE = 32
_RECOMPUTED_AFTER = 16


class Latencies:
    """The durations of recent calls, and their 95th percentile."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._until_next = _ENOUGH_TO_HEDGE
        #: None until there are enough calls.
        self.p95: float | None = None

    def add(self, seconds: float) -> None:
        """Adds the duration of a call."""
        self._seconds.append(seconds)
        self._until_next -= 1
        if not self._until_next:
            ordered = sorted(self._seconds)
            self.p95 = ordered[int(0.95 * (len(ordered) - 1))]
            self._until_next = _RECOMPUTED_AFTER


class Partition:
    """One partition, independent of the server that answers for it.

    Args:
        number: Number of the partition in the collection.
        replicas: Servers of the partition.
        metrics: Metrics that count calls.
    """

    def __init__(self, number: int, replicas: Sequence[Replica], metrics: PartitionMetrics) -> None:
        self.number = number
        self.replicas = tuple(replicas)
        self._metrics = metrics
        self._latencies: dict[str, Latencies] = {}

    @property
    def outstanding(self) -> int:
        """Calls in progress at the least busy server."""
        return min(replica.outstanding for replica in self.replicas)

    async def ask(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        version: int,
        seconds: float,
    ) -> dict[str, np.ndarray]:
        """Runs a signature of a version on one of the servers.

        Args:
            signature: Name of the signature.
            inputs: Inputs by name.
            outputs: Names of the outputs to return.
            version: Version that must answer.
            seconds: Timeout in seconds, for all servers together.

        Returns:
            The outputs by name.

        Raises:
            RequestError: The servers refused the request, with their status code. Otherwise UNAVAILABLE or
                DEADLINE_EXCEEDED, with the number of the partition.
        """
        deadline = time.monotonic() + seconds
        latencies = self._latencies.setdefault(signature, Latencies())
        waiting = self._in_order(version)
        running: dict[asyncio.Task[dict[str, np.ndarray]], float] = {}
        failure = RequestError(Code.UNAVAILABLE, f"no server has version {version}")

        def begin() -> None:
            replica = waiting.pop(0)
            call = replica.predict(signature, inputs, outputs, version, deadline - time.monotonic())
            # Counted before it begins, so that simultaneous calls do not all choose the same server.
            replica.outstanding += 1
            task = asyncio.create_task(call)
            task.add_done_callback(lambda _: replica.release())
            running[task] = time.monotonic()

        try:
            while (waiting or running) and time.monotonic() < deadline:
                if not running:
                    begin()
                hedge = latencies.p95 if waiting and len(running) == 1 else None
                left = deadline - time.monotonic()
                done, _ = await asyncio.wait(
                    running,
                    timeout=left if hedge is None else min(hedge, left),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done and waiting and hedge is not None:
                    self._metrics.hedged(self.number)
                    begin()
                for task in done:
                    seconds_taken = time.monotonic() - running.pop(task)
                    try:
                        answer = task.result()
                    except RequestError as error:
                        self._metrics.asked(self.number, error.code, seconds_taken)
                        if error.code not in _MAY_PASS:
                            raise
                        failure = error
                        continue
                    self._metrics.asked(self.number, Code.OK, seconds_taken)
                    latencies.add(seconds_taken)
                    return answer
        finally:
            for task in running:
                task.cancel()
        if time.monotonic() >= deadline:
            failure = RequestError(Code.DEADLINE_EXCEEDED, "it did not answer in time")
        raise RequestError(
            Code.DEADLINE_EXCEEDED if failure.code == Code.DEADLINE_EXCEEDED else Code.UNAVAILABLE,
            f"Partition {self.number} did not answer: {failure.message.rstrip('.')}.",
        )

    def _in_order(self, version: int) -> list[Replica]:
        """Returns the servers that can answer: first those without a recent failure, the least busy first."""
        able = [replica for replica in self.replicas if replica.may_answer(version)]
        random.shuffle(able)
        return sorted(able, key=lambda replica: (replica.is_resting, replica.outstanding))
