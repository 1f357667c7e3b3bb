"""Lines of text files, compressed or not: one after the other, or any of them by number."""

from __future__ import annotations

import bz2
import gzip
import lzma
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from xtr_tf.errors import InputError

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
#: What reading a damaged file raises.
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, OSError)


def open_bytes(path: Path) -> IO[bytes]:
    """Opens a file for reading, decompressing by its suffix."""
    try:
        return _OPENERS.get(path.suffix, open)(path, "rb")
    except OSError as error:
        raise InputError(
            f"A data file cannot be read ({error.strerror}). Received: {str(path)!r}."
        ) from error


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields numbers, from 1, and lines without their end; blank lines are left out."""
    with open_bytes(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if stripped := line.rstrip(b"\r\n"):
                    yield number, stripped
        except DAMAGE as error:
            raise damaged(path, error) from error


class LineFile:
    """The lines of a file by number, without keeping a plain file in memory.

    A compressed file is decompressed into memory.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = file_content(path)
        starts, start = [], 0
        while start < len(self._content):
            starts.append(start)
            end = self._content.find(b"\n", start)
            start = len(self._content) if end < 0 else end + 1
        self._bounds = np.array([*starts, len(self._content)], np.int64)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> bytes:
        """The line at `index`, from 0, without its end."""
        return self._content[self._bounds[index] : self._bounds[index + 1]].rstrip(b"\r\n")


def file_content(path: Path) -> bytes | mmap.mmap:
    """All bytes of a file: mapped if it is plain, in memory if it is compressed."""
    with open_bytes(path) as file:
        if path.suffix in _OPENERS:
            try:
                return file.read()
            except DAMAGE as error:
                raise damaged(path, error) from error
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def damaged(path: Path, error: Exception) -> InputError:
    """The error for a file that cannot be read to its end."""
    return InputError(f"A data file is damaged ({error}); fetch it again. Received: {str(path)!r}.")
