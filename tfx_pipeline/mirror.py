"""A local folder kept in step with a remote one, for libraries that work on real paths alone.

Only whole entries travel: what a library writes under a temporary name that begins with a dot is
left out until it gets its own.
"""

from __future__ import annotations

import logging
import posixpath
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

_SECONDS_BETWEEN = 30.0


@contextmanager
def mirrored(local: Path, remote: str, seconds: float = _SECONDS_BETWEEN) -> Iterator[None]:
    """Fetches a remote folder, and sends what changes in the local one while the block runs.

    Args:
        local: The folder to work in; what is in it before is replaced.
        remote: Where it is kept.
        seconds: Between two looks at what changed.
    """
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(parents=True)
    if tf.io.gfile.isdir(remote):
        _fetch(remote, local)
    sent = _state(local)
    ended = threading.Event()

    def watch() -> None:
        nonlocal sent
        while not ended.wait(seconds):
            try:
                sent = _send(local, remote, sent)
            except (tf.errors.OpError, OSError) as error:  # storage that fails now may answer the next time
                logging.warning("Could not send %s to %s: %s.", local, remote, error)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _send(local, remote, sent)


def _fetch(remote: str, local: Path) -> None:
    for folder, _, names in tf.io.gfile.walk(remote):
        below = local / folder[len(remote) :].strip("/")
        below.mkdir(parents=True, exist_ok=True)
        for name in names:
            tf.io.gfile.copy(posixpath.join(folder, name), str(below / name), overwrite=True)


def _state(local: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file that has its own name, in folders that have theirs."""
    state = {}
    for path in local.rglob("*"):
        relative = path.relative_to(local)
        if any(part.startswith(".") for part in relative.parts):
            continue
        try:
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                state[str(relative)] = (status.st_size, status.st_mtime_ns)
        except FileNotFoundError:  # removed meanwhile
            continue
    return state


def _send(local: Path, remote: str, sent: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    state = _state(local)
    # Small files that name what is complete sort behind the data they name only by chance: send them last.
    changed = [name for name, value in state.items() if sent.get(name) != value]
    for name in sorted(changed, key=lambda name: (name.endswith(".json"), name)):
        target = posixpath.join(remote, name)
        tf.io.gfile.makedirs(posixpath.dirname(target))
        try:
            tf.io.gfile.copy(str(local / name), target, overwrite=True)
        except tf.errors.NotFoundError:  # removed meanwhile
            state.pop(name)
    for name in sent.keys() - state.keys():
        target = posixpath.join(remote, name)
        if tf.io.gfile.exists(target):
            tf.io.gfile.remove(target)
    return state
