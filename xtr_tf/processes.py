"""Child processes that end with their parent, however it ends.

The parent gives a child `child_environment()`; the child calls `die_with_parent()` first thing, and the
kernel does the rest (`PR_SET_PDEATHSIG`). A child sets that for itself, because code between fork and exec is
not safe in a process with threads. Linux only; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PARENT = "XTR_TF_PARENT_PROCESS"
_PR_SET_PDEATHSIG = 1


def child_environment() -> dict[str, str]:
    """This process' environment, for a child that is to end with it."""
    return {**os.environ, _PARENT: str(os.getpid())}


def die_with_parent() -> None:
    """Ends this process when the one that started it ends; nothing if that one did not ask for it."""
    parent = os.environ.pop(_PARENT, "")
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it ended before the kernel was told
        os._exit(1)
