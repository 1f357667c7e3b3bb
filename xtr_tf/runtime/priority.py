"""Work that must not take processors from calls that people wait for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")
# A quarter of what another thread on the same core gets: enough to finish on a busy machine.
_NICENESS = 5


def at_low_priority(call: Callable[[], _T]) -> _T:
    """Makes a call on a thread of low priority, which the threads that it starts inherit.

    A thread can lower its priority but not raise it again, so it needs its own. The call must not run
    Python code for long: threads that wait for the interpreter's lock would wait at that priority, too.
    """
    future: Future[_T] = Future()

    def work() -> None:
        with suppress(OSError, AttributeError):  # only Linux has priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="low-priority", daemon=True).start()
    return future.result()
