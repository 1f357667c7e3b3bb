"""A fixed number of threads that run model calls, first come, first served.

Jobs wait on the event loop, where they can still be cancelled. A job whose caller has left never starts.
Knows nothing about models.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Job(Protocol):
    """A unit of work that decides only when it starts what to run."""

    def begin(self) -> Callable[[], Any] | None:
        """Returns the call to make on a thread, or None if there is nothing left to do."""

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Receives what the call returned or raised, on the event loop.

        Args:
            result: What the call returned.
            error: What the call raised, or None.
        """


class WorkerPool:
    """Runs jobs on threads. Use it only from the event loop that it was created in.

    It does not use an executor, because most of the overhead of serving is handing calls to threads and back,
    and an executor's chain of futures would double it.

    Args:
        workers: Number of threads, and so of concurrent model calls. 0 starts one per core.
    """

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._loop = asyncio.get_running_loop()
        self._begun: queue.SimpleQueue[tuple[Job, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._free = self.workers
        self._waiting: deque[Job] = deque()
        self._threads = [
            threading.Thread(target=self._work, name=f"model-{number}", daemon=True)
            for number in range(self.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def depth(self) -> int:
        """Jobs that wait for a thread."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Runs a job as soon as a thread is free."""
        self._waiting.append(job)
        self._dispatch()

    async def run(self, call: Callable[[], _T]) -> _T:
        """Runs a call on a thread. If the caller is cancelled while it waits, the call never starts.

        Args:
            call: The function to call.

        Returns:
            What the call returns.
        """
        future: asyncio.Future[_T] = self._loop.create_future()
        self.submit(_Call(call, future))
        return await future

    def close(self) -> None:
        """Waits for running calls and ends the threads."""
        for _ in self._threads:
            self._begun.put(None)
        for thread in self._threads:
            thread.join()

    def _dispatch(self) -> None:
        while self._free and self._waiting:
            job = self._waiting.popleft()
            call = job.begin()
            if call is None:
                continue
            self._free -= 1
            self._begun.put((job, call))

    def _work(self) -> None:
        while (begun := self._begun.get()) is not None:
            job, call = begun
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._finished, job, result, error)
            except RuntimeError:  # the loop is closed, so nobody waits for the result
                return

    def _finished(self, job: Job, result: Any, error: BaseException | None) -> None:
        self._free += 1
        # Give the free thread its next job before handling this one's result.
        self._dispatch()
        job.finish(result, error)


class _Call:
    """One caller's job."""

    def __init__(self, call: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self._call = call
        self.future = future

    def begin(self) -> Callable[[], Any] | None:
        return None if self.future.done() else self._call

    def finish(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
