"""Child processes that end when their parent ends, even if it is killed.

The parent starts a child with `child_environment()`. The child first calls `die_with_parent()`; the kernel
does the rest (`PR_SET_PDEATHSIG`). The child sets this itself, because running code between fork and exec is
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
    """Returns the environment for a child that should end with this process."""
    return {**os.environ, _PARENT: str(os.getpid())}


def die_with_parent() -> None:
    """Ends this process when its parent ends, if the parent used `child_environment`."""
    parent = os.environ.pop(_PARENT, "")
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # the parent ended before the call
        os._exit(1)
