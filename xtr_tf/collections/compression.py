"""Finds and opens data files, plain or compressed. The suffix tells the compression.

All readers share this table of compressions. Knows nothing about the content of files.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from xtr_tf.errors import InputError


def _open_zstandard(path: Path) -> IO[bytes]:
    # Unlike the reader of the `zstandard` package, Arrow's notices a truncated file.
    return io.BufferedReader(import_pyarrow(path).input_stream(str(path), compression="zstd"))


_OPENERS: Mapping[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".zst": _open_zstandard,
}
#: Suffixes of compressed files.
COMPRESSIONS = tuple(_OPENERS)


def uncompressed_suffix(path: Path) -> str:
    """Returns the suffix that tells the format, such as `.jsonl` for `corpus.jsonl.gz`."""
    return Path(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


def find_file(folder: Path, name: str) -> Path | None:
    """Finds `folder/name`, plain or compressed.

    Args:
        folder: The folder to look in.
        name: Name of the plain file.

    Returns:
        The path of the file, or None if there is none.
    """
    candidates = (folder / f"{name}{suffix}" for suffix in ("", *COMPRESSIONS))
    return next((path for path in candidates if path.is_file()), None)


def require_file(folder: Path, name: str) -> Path:
    """Finds `folder/name`, plain or compressed, or raises `InputError`.

    Args:
        folder: The folder to look in.
        name: Name of the plain file.

    Returns:
        The path of the file.

    Raises:
        InputError: There is no such file.
    """
    found = find_file(folder, name)
    if found is None:
        raise InputError(
            f"The folder lacks {name} (plain or {', '.join(COMPRESSIONS)}); check its layout. "
            f"Received: {str(folder)!r}."
        )
    return found


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading.

    Args:
        path: The file, plain or compressed.

    Yields:
        The open file, which reads decompressed bytes.

    Raises:
        InputError: The file cannot be read, or turns out to be damaged while it is read.
    """
    try:
        with _OPENERS.get(path.suffix, _open_plain)(path) as file:
            yield file
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the machine's fault, not the file's
            raise InputError(
                f"A data file cannot be read ({error.strerror}). Received: {str(path)!r}."
            ) from error
        raise damaged(path, error) from error


def file_content(path: Path) -> bytes | mmap.mmap:
    """Returns all bytes of a file: memory-mapped if it is plain, in memory if it is compressed."""
    with open_bytes(path) as file:
        if path.suffix in COMPRESSIONS:
            return file.read()
        if path.stat().st_size == 0:  # an empty file cannot be mapped
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def damaged(path: Path, error: Exception) -> InputError:
    """Returns the error for a file that cannot be read to its end."""
    return InputError(
        f"A data file is truncated or damaged ({error}); copy it again. Received: {str(path)!r}."
    )


def import_pyarrow(path: Path) -> Any:
    """Imports `pyarrow`, or raises an `InputError` that says why it is needed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(
            "Parquet and Zstandard files need the package `pyarrow`; install xtr-tf[train]. "
            f"Received: {str(path)!r}."
        ) from error
    return pa


def _open_plain(path: Path) -> IO[bytes]:
    return path.open("rb")
