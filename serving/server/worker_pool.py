"""A bounded number of threads that run model calls, first come first served.

Waiting work stays on the event loop, where it can still be given up: a job whose caller has gone
is never begun. Knows nothing of models.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class Job(Protocol):
    """A unit of work that decides at the last moment what it is."""

    def begin(self) -> Callable[[], Any] | None:
        """Returns the call to make on a thread, or None if there is nothing left to do."""

    def finish(self, result: asyncio.Future[Any]) -> None:
        """Takes the call's outcome, on the event loop."""


class WorkerPool:
    """Runs jobs on threads. Used from the event loop alone.

    Args:
        workers: Threads, which is to say model calls at the same time; 0 for one a core.
    """

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="model")
        self._free = self.workers
        self._waiting: deque[Job] = deque()

    @property
    def depth(self) -> int:
        """Jobs that wait for a thread."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Runs a job as soon as a thread is free."""
        self._waiting.append(job)
        self._dispatch()

    async def run(self, call: Callable[[], Any]) -> Any:
        """Runs one call and returns what it returns; given up in the queue if the caller is cancelled."""
        job = _Call(call, asyncio.get_running_loop().create_future())
        self.submit(job)
        return await job.future

    def close(self) -> None:
        """Waits for running calls and ends the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _dispatch(self) -> None:
        while self._free and self._waiting:
            job = self._waiting.popleft()
            call = job.begin()
            if call is None:
                continue
            self._free -= 1
            future = asyncio.get_running_loop().run_in_executor(self._executor, call)
            future.add_done_callback(lambda done, job=job: self._finished(job, done))  # type: ignore[misc]

    def _finished(self, job: Job, done: asyncio.Future[Any]) -> None:
        self._free += 1
        # The freed thread gets its next job before anything is done about this one's answer.
        self._dispatch()
        job.finish(done)


class _Call:
    """One caller's job."""

    def __init__(self, call: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self._call = call
        self.future = future

    def begin(self) -> Callable[[], Any] | None:
        return None if self.future.done() else self._call

    def finish(self, result: asyncio.Future[Any]) -> None:
        if not self.future.done():
            copy_outcome(result, self.future)


def copy_outcome(source: asyncio.Future[Any], target: asyncio.Future[Any]) -> None:
    """Gives `target` what `source` ended with."""
    if source.cancelled():
        target.cancel()
    elif (error := source.exception()) is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())
