"""Provides folders of any file system that TensorFlow supports as local directories.

Models, indexes and reports are read and written by libraries that need real paths. Local folders are used in
place. Remote ones, such as `gs://bucket/model`, are copied: completely for artifacts, file by file for a
glob, and repeatedly for work that may be interrupted (`WorkArea`). Knows nothing about TFX or the content
of folders.
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
from xtr_tf.vectors.folders import ADDRESS, Folder

_SECONDS_BETWEEN_LOOKS = 30.0


@contextmanager
def local_input(uri: str) -> Iterator[Path]:
    """Provides an artifact as a local directory to read from.

    Args:
        uri: Folder of the artifact, local or remote.

    Yields:
        The local directory.
    """
    if not is_remote(uri):
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy_folder(uri, folder)
        yield Path(folder)


def folder_at(uri: str) -> Folder:
    """Returns an artifact whose files are read one by one. A remote file is copied when it is read.

    Args:
        uri: Folder of the artifact, local or remote.

    Returns:
        The folder.
    """
    if not is_remote(uri):
        return Folder(uri)
    from xtr_tf.vectors.remote import RemoteFolder

    return RemoteFolder(uri)


@contextmanager
def local_output(uri: str, last: str = "") -> Iterator[Path]:
    """Provides a local directory to write an artifact into.

    Args:
        uri: Folder of the artifact. If it is remote, the directory is copied there unless an error occurs.
        last: File to copy after all others, without which the artifact is not complete.

    Yields:
        The local directory.
    """
    if not is_remote(uri):
        Path(uri).mkdir(parents=True, exist_ok=True)
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "artifact")  # writers may use hidden names next to it
        out.mkdir()
        yield out
        copy_folder(str(out), uri, last)


@contextmanager
def local_files(base: str, patterns: list[str]) -> Iterator[Path]:
    """Provides a local folder with the files that match. Remote files are copied.

    Args:
        base: A folder, local or such as `gs://bucket/folder`.
        patterns: Globs relative to `base`.

    Yields:
        The local folder.
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
    """Copies the content of a folder, local or remote. If it has the address of a file, that file is copied.

    Args:
        source: Folder to copy from.
        target: Folder to copy to. Created if it does not exist.
        last: File of `source` to copy after all others.
    """
    linked: dict[str, str] = {}
    for folder, _, names in tf.io.gfile.walk(source):
        below = posixpath.join(target, folder[len(source) :].strip("/"))
        tf.io.gfile.makedirs(below)
        for name in names:
            path, copied = posixpath.join(folder, name), posixpath.join(below, name)
            if name.endswith(ADDRESS):
                with tf.io.gfile.GFile(path) as file:
                    linked[copied.removesuffix(ADDRESS)] = file.read()
            elif folder.rstrip("/") != source.rstrip("/") or name != last:
                tf.io.gfile.copy(path, copied, overwrite=True)
    if linked:  # by the storage itself if it can, without a detour
        FileSystems.copy(list(linked.values()), list(linked))
    if last:
        tf.io.gfile.copy(posixpath.join(source, last), posixpath.join(target, last), overwrite=True)


class WorkArea:
    """The unfinished work of a pipeline, and the places of its latest finished work.

    Args:
        folder: Folder of the work area, local or remote.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def unfinished(self, kind: str, key: str, reader: str = "") -> Iterator[Path]:
        """Provides the folder of a piece of work, with the files that an earlier run left there.

        The folder is removed if the block ends without an error, and kept otherwise. The path is the same on
        every machine. A remote area is mirrored there.

        Args:
            kind: Kind of work.
            key: Key of what the work is made from.
            reader: Name of a process that works together with the writer and changes nothing here. It sees
                the same folder, or a copy of a remote one as it was.

        Yields:
            The local folder.
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
        """Records the places of finished work. Replaces earlier ones of the same key.

        Args:
            kind: Kind of work.
            key: Key of what the work was made from.
            places: Folders by name.
        """
        path = self._note(kind, key)
        tf.io.gfile.makedirs(posixpath.dirname(path))
        with tf.io.gfile.GFile(f"{path}.partial", "w") as file:
            file.write(json.dumps(places))
        tf.io.gfile.rename(f"{path}.partial", path, overwrite=True)

    def latest(self, kind: str, key: str) -> dict[str, str] | None:
        """Returns the places of finished work.

        Args:
            kind: Kind of work.
            key: Key of what the work was made from.

        Returns:
            Folders by name, or None if there is no finished work or it no longer exists.
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
    """Returns a short name for the inputs of a piece of work."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@contextmanager
def mirrored(local: Path, remote: str, seconds: float = _SECONDS_BETWEEN_LOOKS) -> Iterator[None]:
    """Downloads a remote folder, and uploads changes of the local one while the block runs.

    Args:
        local: Local folder to work in. Its earlier content is replaced.
        remote: Remote folder.
        seconds: Time in seconds between two checks for changes.
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
    """Returns size and time of every file. Skips symbolic links and everything below a name with a dot."""
    state = {}
    for path in local.rglob("*"):
        relative = path.relative_to(local)
        if any(part.startswith(".") for part in relative.parts):
            continue
        try:
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                state[str(relative)] = (status.st_size, status.st_mtime_ns)
        except FileNotFoundError:  # removed in the meantime
            continue
    return state


def _send(local: Path, remote: str, sent: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    state = _state(local)
    # Small JSON files name data that are complete. Send them last, so that the data are there first.
    changed = [name for name, value in state.items() if sent.get(name) != value]
    for name in sorted(changed, key=lambda name: (name.endswith(".json"), name)):
        target = posixpath.join(remote, name)
        tf.io.gfile.makedirs(posixpath.dirname(target))
        try:
            tf.io.gfile.copy(str(local / name), target, overwrite=True)
        except tf.errors.NotFoundError:  # removed in the meantime
            state.pop(name)
    for name in sent.keys() - state.keys():
        target = posixpath.join(remote, name)
        if tf.io.gfile.exists(target):
            tf.io.gfile.remove(target)
    return state
