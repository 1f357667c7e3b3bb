"""Files and folders that are whole or absent, whatever happens while they are written.

Content is written under a hidden name next to its destination, flushed to the disk, and renamed. A
process that is killed leaves at most a hidden name that ends with `.partial`, which nothing takes
for the real thing and the next writer may remove. Knows nothing of what the files hold.
"""

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


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file, replacing one that is there."""
    unfinished = _unfinished(path)
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _flush(path.parent)


@contextmanager
def atomic_directory(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Gives a new folder to fill, which becomes `path` when the block ends without an exception.

    Args:
        path: The folder to make; folders above it are made if need be.
        overwrite: Whether it may replace one that exists, which stays until the new one is whole.

    Yields:
        The folder to write into, in the same parent; removed if an exception leaves the block.

    Raises:
        InputError: `path` exists and may not be replaced, before the block or at its end.

    Example:
        >>> with atomic_directory(Path("out/encoder")) as folder:
        ...     (folder / "weights").write_bytes(weights)
    """
    _check_may_write(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _unfinished(path)
    unfinished.mkdir()
    try:
        yield unfinished
        for content in unfinished.rglob("*"):
            _flush(content)
        _flush(unfinished)
        _check_may_write(path, overwrite)
        if path.exists():
            replaced = _unfinished(path)
            path.rename(replaced)
            unfinished.rename(path)
            shutil.rmtree(replaced)
        else:
            unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _flush(path.parent)


def cache_folder(name: str) -> Path:
    """A folder for what can be made again: below `XDG_CACHE_HOME`, or `~/.cache`; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xtr-tf" / name


def is_unfinished(path: Path) -> bool:
    """Whether `path` is work in progress, or was left by a process that was killed."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def remove_unfinished(folder: Path) -> None:
    """Removes what killed processes have left in `folder`; nobody else may be writing into it."""
    for path in filter(is_unfinished, list(folder.iterdir())):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def sha256_of(path: Path) -> str:
    """Hash of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


#: The file in a folder that says it is whole, for places where folders do not appear at once.
MARKER = "_SUCCESS"


def marker_of(folder: Path) -> str:
    """Returns what a folder's marker says: hash and name of every file, in the format of `sha256sum`."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    )
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)


def differs_from_marker(folder: Path) -> list[str]:
    """Returns the files of a marked folder that are missing or have another content than its marker says."""
    different = []
    for line in (folder / MARKER).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if not name or not path.is_file() or sha256_of(path) != digest:
            different.append(name or line)
    return different


def _check_may_write(directory: Path, overwrite: bool) -> None:
    if directory.exists() and not overwrite:
        raise InputError(
            f"The directory exists; choose another one or allow overwriting. Received: {str(directory)!r}."
        )


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")


def _flush(path: Path) -> None:
    """Makes a file's content, or the names in a folder, outlive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
