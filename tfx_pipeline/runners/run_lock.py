"""One run at a time on a metadata store.

TFX's local runner takes no lock of its own: two runs on one sqlite store would publish into each
other's executions. The lock is the operating system's, so that a killed run leaves none behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xtr_tf.errors import InputError


@contextmanager
def run_lock(root: Path) -> Iterator[None]:
    """Holds the pipeline root for one run.

    Args:
        root: The pipeline's folder; made if it does not exist.

    Raises:
        InputError: Another process runs a pipeline there.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InputError(
                f"Another run uses this pipeline root; wait for it to end or choose another root. "
                f"Received: {root}, in use by process {file.read().strip() or 'unknown'}."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
