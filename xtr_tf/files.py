"""Files that are whole or absent: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xtr_tf.errors import InputError

_CHUNK = 1 << 22


def write_aside(path: Path, content: bytes) -> None:
    """Writes a file under another name and renames it."""
    aside = _aside(path)
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


@contextmanager
def directory_aside(path: Path) -> Iterator[Path]:
    """Gives a new folder to fill; on success it takes the place of `path`, on failure it is removed.

    A folder left by a killed process keeps its own name and is never mistaken for `path`; the one
    that is replaced is removed under such a name, too, so that `path` is never half of anything.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    aside.mkdir()
    try:
        yield aside
        for file in aside.iterdir():
            _flush(file)
        flush_directory(aside)
        if path.exists():
            replaced = _aside(path)
            path.rename(replaced)
            aside.rename(path)
            shutil.rmtree(replaced)
        else:
            aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    flush_directory(path.parent)


def is_aside(path: Path) -> bool:
    """Whether `path` is unfinished work that its writer has left."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def sha256_of(path: Path) -> str:
    """Hash of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def flush_directory(path: Path) -> None:
    """Makes renames within a folder outlive a power failure."""
    _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")


@contextmanager
def staged_directory(directory: Path, overwrite: bool) -> Iterator[Path]:
    """Gives a temporary sibling to write into, and renames it to `directory` when all went well.

    Args:
        directory: The directory to make.
        overwrite: Whether it may replace one that exists; the old one stays until the new is whole.

    Yields:
        The temporary directory, which is removed if an exception leaves the block.
    """
    if directory.exists() and not overwrite:
        raise InputError(
            f"The directory exists; choose another one or allow overwriting. Received: {str(directory)!r}."
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
    staging.mkdir()
    try:
        yield staging
        if directory.exists():
            replaced = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
            directory.rename(replaced)
            staging.rename(directory)
            shutil.rmtree(replaced)
        else:
            staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
