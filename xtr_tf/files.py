"""Writes files and folders atomically: they are complete or absent.

Content is written under a hidden name next to its destination, flushed to disk, and renamed. A killed process
leaves at most a hidden name that ends with `.partial`. Readers ignore it, and the next writer of that name
removes it. Errors of the file system become a `StorageError` with the path, the space needed and the space
free. Knows nothing about the content of files.
"""

from __future__ import annotations

import errno
import fcntl
import glob
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
    """Writes a file atomically, and replaces an existing one.

    Args:
        path: The file.
        content: The whole content.

    Raises:
        StorageError: The file system refused to write.
    """
    unfinished = _unfinished(path)
    try:
        with writing(path, needed=len(content)), unfinished.open("wb") as file:
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
    """Yields a new folder to fill, which becomes `path` when the block ends without an exception.

    Args:
        path: The folder to make. Missing parents are created.
        overwrite: Whether to replace an existing folder, which stays until the new one is complete.

    Yields:
        The folder to write into, in the same parent. It is removed if the block raises an exception.

    Raises:
        InputError: `path` exists, before the block or at its end, and `overwrite` is not set.

    Example:
        >>> with atomic_directory(Path("out/encoder")) as folder:
        ...     (folder / "weights").write_bytes(weights)
    """
    _check_may_write(path, overwrite)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        unfinished = _unfinished(path)
        unfinished.mkdir()
    claim = _claim(unfinished)
    try:
        with writing(path):
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
    finally:
        os.close(claim)
    _flush(path.parent)


def cache_folder(name: str) -> Path:
    """Returns a folder in the cache (`XDG_CACHE_HOME` or `~/.cache`), which may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xtr-tf" / name


def is_unfinished(path: Path) -> bool:
    """Whether `path` is work in progress, or was left by a process that was killed."""
    return path.name.startswith(".") and path.name.endswith(".partial")


def remove_unfinished(folder: Path) -> None:
    """Removes what killed processes left in `folder`. Nobody else may be writing to it."""
    for path in filter(is_unfinished, list(folder.iterdir())):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


#: The file that marks a folder as complete, for storage that cannot rename folders atomically.
MARKER = "_SUCCESS"


def checksums_of(folder: Path, leave_out: str = MARKER) -> str:
    """Returns the checksums of all files in a folder except one, in the format of `sha256sum`.

    Args:
        folder: The folder.
        leave_out: The file that will hold the checksums.

    Returns:
        Lines as `sha256sum` writes them.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names if name != leave_out)


def changed_files(folder: Path, listing: str = MARKER) -> list[str]:
    """Returns the files of a folder that are missing or do not match their checksums in `listing`.

    Args:
        folder: The folder.
        listing: Name of the file with the checksums.

    Returns:
        Names of files that are missing or differ.
    """
    changed = []
    for line in (folder / listing).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if not name or not path.is_file() or sha256_of(path) != digest:
            changed.append(name or line)
    return changed


def _check_may_write(directory: Path, overwrite: bool) -> None:
    if directory.exists() and not overwrite:
        raise InputError(
            f"The directory exists; choose another one or allow overwriting. Received: {str(directory)!r}."
        )


def _unfinished(path: Path) -> Path:
    """Returns a hidden name that contains the id of the process that writes it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


def _sweep(path: Path) -> None:
    """Removes what killed writers of the same name left, but not the files of a live one."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        process = left.name.removesuffix(".partial").rpartition(".")[2].partition("-")[0]
        if process.isdecimal() and Path("/proc", process).exists():
            continue
        try:
            claim = _claim(left)
        except (BlockingIOError, FileNotFoundError):
            continue
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        os.close(claim)


def _claim(path: Path) -> int:
    """Locks a file or folder until the descriptor is closed or the process ends."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class StorageError(OSError):
    """The file system refused to write. The message names the path and says what to do."""


@contextmanager
def writing(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turns errors of the file system in the block, also through TensorFlow, into a `StorageError`.

    Args:
        path: The file or folder that is written.
        needed: Its size in bytes, if known.

    Raises:
        StorageError: The file system refused to write.
    """
    try:
        yield
    except Exception as error:
        sentence = storage_sentence(error, path, needed)
        if sentence is None:
            raise
        raise StorageError(sentence) from error


_NO_SPACE = {errno.ENOSPC: "No space left", errno.EDQUOT: "quota exceeded", errno.EFBIG: "File too large"}
_NO_WRITING = {errno.EROFS: "Read-only file system", errno.EACCES: "Permission denied"}


def storage_sentence(error: BaseException, path: Path | None = None, needed: int | None = None) -> str | None:
    """Describes an error of the file system in one sentence.

    Args:
        error: An `OSError`, or TensorFlow's version of one.
        path: The file or folder that was written, if the error does not name it.
        needed: Its size in bytes, if known.

    Returns:
        The sentence, or None if it is another kind of error or already a `StorageError`.
    """
    if isinstance(error, StorageError):
        return None
    number = _error_number(error)
    named = getattr(error, "filename", None)
    place = Path(os.fsdecode(named)) if isinstance(named, str | bytes) else path
    if number is None or place is None:
        return None
    if number in _NO_SPACE:
        free = shutil.disk_usage(_existing(place)).free
        wanted = f"{_size(needed)} are needed and " if needed is not None else ""
        limit = "A limit for files or a quota is reached" if number != errno.ENOSPC else "The disk is full"
        return (
            f"{limit}: {wanted}{_size(free)} are free; make room and run the same command again, nothing "
            f"half written is left behind. Received: {str(place)!r}."
        )
    if number == errno.EROFS:
        return f"The file system is read-only; choose another place. Received: {str(place)!r}."
    return f"Writing there is not permitted; change the permissions or the place. Received: {str(place)!r}."


def _error_number(error: BaseException) -> int | None:
    known = {**_NO_SPACE, **_NO_WRITING}
    if isinstance(error, OSError):
        if error.errno is None and str(error).endswith(" written"):  # NumPy's, of an array that did not fit
            return errno.ENOSPC
        return error.errno if error.errno in known else None
    if type(error).__module__.partition(".")[0] == "tensorflow":
        return next((number for number, words in known.items() if words in str(error)), None)
    return None


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _size(count: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count:.0f} bytes"


def _flush(path: Path) -> None:
    """Flushes a file, or the names in a folder, to disk, so that they survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
