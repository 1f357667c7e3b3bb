"""Folders of any file system that TensorFlow knows, as local directories.

Models, indexes and reports are read and written by libraries that want real paths. What is local is
used where it is; what is remote, such as `gs://bucket/model`, is copied: whole for artifacts, file by
file for a glob, and again and again for work that may be interrupted (`WorkArea`). Knows nothing of TFX,
nor of what is in the folders.
"""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf
from apache_beam.io.filesystems import FileSystems

from tfx_pipeline.config import is_remote

_SECONDS_BETWEEN_LOOKS = 30.0


@contextmanager
def local_input(uri: str) -> Iterator[Path]:
    """Gives an artifact's directory to read from."""
    if not is_remote(uri):
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy_folder(uri, folder)
        yield Path(folder)


@contextmanager
def local_output(uri: str) -> Iterator[Path]:
    """Gives a directory to write an artifact into; a remote one is copied when all went well."""
    if not is_remote(uri):
        Path(uri).mkdir(parents=True, exist_ok=True)
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        copy_folder(folder, uri)


@contextmanager
def local_files(base: str, patterns: list[str]) -> Iterator[Path]:
    """Gives a local folder with the files below `base` that match, copied there if they are remote.

    Args:
        base: A folder, local or such as `gs://bucket/folder`.
        patterns: Globs relative to `base`.

    Yields:
        The folder.
    """
    if not is_remote(base):
        yield Path(base)
        return
    with tempfile.TemporaryDirectory() as folder:
        for pattern in patterns:
            (match,) = FileSystems.match([FileSystems.join(base, pattern)])
            for found in match.metadata_list:
                target = Path(folder, found.path[len(base) :].lstrip("/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                with FileSystems.open(found.path) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        yield Path(folder)


def copy_folder(source: str, target: str, last: str = "") -> None:
    """Copies what is in a folder, local or remote.

    Args:
        source: The folder.
        target: Where to; made if need be.
        last: The file of `source` that is copied after all others.
    """
    for folder, _, names in tf.io.gfile.walk(source):
        below = posixpath.join(target, folder[len(source) :].strip("/"))
        tf.io.gfile.makedirs(below)
        for name in names:
            if folder.rstrip("/") != source.rstrip("/") or name != last:
                tf.io.gfile.copy(posixpath.join(folder, name), posixpath.join(below, name), overwrite=True)
    if last:
        tf.io.gfile.copy(posixpath.join(source, last), posixpath.join(target, last), overwrite=True)


class WorkArea:
    """The unfinished work of one pipeline, and where its latest finished work lies.

    Args:
        folder: Its folder, local or remote.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def unfinished(self, kind: str, key: str, reader: str = "") -> Iterator[Path]:
        """Gives the folder of a piece of work, with what an earlier run left there.

        It is removed when the block ends well, and stays if it does not. The path is the same on
        every machine; a remote area is mirrored there.

        Args:
            kind: What is done.
            key: What it is made from.
            reader: Name of a process that works with the one that writes, and itself changes nothing here:
                it sees the same folder, or a copy of a remote one as it was.
        """
        place = posixpath.join(self._folder, kind, key)
        if not is_remote(self._folder):
            Path(place).mkdir(parents=True, exist_ok=True)
            yield Path(place)
            if not reader:
                shutil.rmtree(place)
            return
        local = Path(tempfile.gettempdir(), "xtr-tf-work", reader, kind, key)
        if reader:
            _fetch(place, local)
            yield local
            shutil.rmtree(local)
            return
        with mirrored(local, place):
            yield local
        shutil.rmtree(local)
        if tf.io.gfile.exists(place):
            tf.io.gfile.rmtree(place)

    def remember(self, kind: str, key: str, places: dict[str, str]) -> None:
        """Notes where finished work of a key lies, instead of what was noted before.

        Args:
            kind: Of work.
            key: Of what it was made from.
            places: Folders by name.
        """
        path = self._note(kind, key)
        tf.io.gfile.makedirs(posixpath.dirname(path))
        with tf.io.gfile.GFile(f"{path}.partial", "w") as file:
            file.write(json.dumps(places))
        tf.io.gfile.rename(f"{path}.partial", path, overwrite=True)

    def latest(self, kind: str, key: str) -> dict[str, str] | None:
        """Where finished work of a key lies; None if there is none, or not any more.

        Args:
            kind: Of work.
            key: Of what it was made from.

        Returns:
            Folders by name, or None.
        """
        path = self._note(kind, key)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            places: dict[str, str] = json.loads(file.read())
        return places if all(tf.io.gfile.exists(place) for place in places.values()) else None

    def _note(self, kind: str, key: str) -> str:
        return posixpath.join(self._folder, "latest", f"{kind}-{key}.json")


def key_of(*parts: Any) -> str:
    """A short name for what work is made from."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@contextmanager
def mirrored(local: Path, remote: str, seconds: float = _SECONDS_BETWEEN_LOOKS) -> Iterator[None]:
    """Fetches a remote folder, and sends what changes in the local one while the block runs.

    Args:
        local: The folder to work in; what is in it before is replaced.
        remote: Where it is kept.
        seconds: Between two looks at what changed.
    """
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
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(parents=True)
    if tf.io.gfile.isdir(remote):
        copy_folder(remote, str(local))


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
