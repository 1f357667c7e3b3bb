"""Files and folders that are whole or absent, whatever happens while they are written.

Content is written under a hidden name next to its destination, flushed to the disk, and renamed. A
process that is killed leaves at most a hidden name that ends with `.partial`, which nothing takes
for the real thing and the next writer of the same name removes. What the file system refuses is said with the
path, what was needed and what is free (`StorageError`). Knows nothing of what the files hold.
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
    """Writes a file, replacing one that is there.

    Args:
        path: Of the file.
        content: All of it.
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


def checksums_of(folder: Path, leave_out: str = MARKER) -> str:
    """Returns hash and name of every file in a folder but one, in the format of `sha256sum`.

    Args:
        folder: The folder.
        leave_out: The file that the checksums are written to.

    Returns:
        Lines as `sha256sum` writes them.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names if name != leave_out)


def changed_files(folder: Path, listing: str = MARKER) -> list[str]:
    """Returns the files of a folder that are missing or have another content than `listing` in it says.

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
    """A hidden name that says which process writes it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


def _sweep(path: Path) -> None:
    """Removes what killed writers of the same name have left; one that is alive keeps its own."""
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
    """Locks a file or folder until the descriptor is closed, or the process ends."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class StorageError(OSError):
    """The file system refused to write; the message is a sentence with the path, and what to do."""


@contextmanager
def writing(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turns what the file system refuses in the block, also through TensorFlow, into a `StorageError`.

    Args:
        path: What is written.
        needed: Its size, if it is known.
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
    """What there is to say of an error of the file system; None if it is none, or has been said already.

    Args:
        error: An `OSError`, or what TensorFlow makes of one.
        path: What was being written, if the error does not name it.
        needed: Its size, if it is known.
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
    """Makes a file's content, or the names in a folder, outlive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
