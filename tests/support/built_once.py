"""Folders that take long to make, made once per run and read by the tests of every worker."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path


def built_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Calls `build(folder)` in the first process that asks; the others wait for it.

    Args:
        folder: Where it is to be, the same for every process. It does not exist when `build` is called.
        build: Writes `folder`. What it writes must not depend on the process that does it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            build(folder)
            done.touch()
    return folder
