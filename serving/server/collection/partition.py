"""The servers of one partition: the least busy is asked, and another if it fails or is slow.

A call that has taken longer than 95% of the recent ones of its kind is sent to a second server as well, and
the first answer counts: one slow server must not make every answer slow. Knows nothing of what is asked.
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

# Calls that another server may answer.
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
    """The times of recent calls, and the one that 95% of them stay below."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._until_next = _ENOUGH_TO_HEDGE
        #: None until enough is known.
        self.p95: float | None = None

    def add(self, seconds: float) -> None:
        """Counts a call."""
        self._seconds.append(seconds)
        self._until_next -= 1
        if not self._until_next:
            ordered = sorted(self._seconds)
            self.p95 = ordered[int(0.95 * (len(ordered) - 1))]
            self._until_next = _RECOMPUTED_AFTER


class Partition:
    """One partition, whichever server answers for it.

    Args:
        number: Its number in the collection.
        replicas: Its servers.
        metrics: Where calls are counted.
    """

    def __init__(self, number: int, replicas: Sequence[Replica], metrics: PartitionMetrics) -> None:
        self.number = number
        self.replicas = tuple(replicas)
        self._metrics = metrics
        self._latencies: dict[str, Latencies] = {}

    @property
    def outstanding(self) -> int:
        """Calls in progress at its least busy server."""
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
            signature: Its name.
            inputs: By name.
            outputs: Those to return.
            version: The version that must answer.
            seconds: How long it may take, all servers together.

        Raises:
            RequestError: As the servers said if they refuse the request; else UNAVAILABLE, or
                DEADLINE_EXCEEDED, with the partition's number.
        """
        deadline = time.monotonic() + seconds
        latencies = self._latencies.setdefault(signature, Latencies())
        waiting = self._in_order(version)
        running: dict[asyncio.Task[dict[str, np.ndarray]], float] = {}
        failure = RequestError(Code.UNAVAILABLE, f"no server has version {version}")

        def begin() -> None:
            replica = waiting.pop(0)
            call = replica.predict(signature, inputs, outputs, version, deadline - time.monotonic())
            # Counted before it has begun: calls of the same moment must not all choose the same server.
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
        """The servers that may answer: those that have not failed lately first, the least busy first."""
        able = [replica for replica in self.replicas if replica.may_answer(version)]
        random.shuffle(able)
        return sorted(able, key=lambda replica: (replica.is_resting, replica.outstanding))
