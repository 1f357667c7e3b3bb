"""A bounded number of threads that run model calls, first come first served.

Waiting work stays on the event loop, where it can still be given up: a job whose caller has gone
is never begun. Knows nothing of models.
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
    """A unit of work that decides at the last moment what it is."""

    def begin(self) -> Callable[[], Any] | None:
        """Returns the call to make on a thread, or None if there is nothing left to do."""

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Takes what the call returned or raised, on the event loop."""


class WorkerPool:
    """Runs jobs on threads. Used only from the event loop it was made in.

    The threads are its own rather than an executor's: handing a call over and back is most of what
    serving adds to a model's time, and an executor's chain of futures would double it.

    Args:
        workers: Threads, that is, model calls at the same time; 0 for one per core.
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
        """Runs one call and returns what it returns; given up in the queue if the caller is cancelled."""
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
            except RuntimeError:  # the loop has been closed; nobody waits any more
                return

    def _finished(self, job: Job, result: Any, error: BaseException | None) -> None:
        self._free += 1
        # The freed thread gets its next job before anything is done about this one's answer.
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
