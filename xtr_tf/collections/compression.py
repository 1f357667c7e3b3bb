"""Files opened as bytes whatever they are compressed with, which their suffix says."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from xtr_tf.errors import InputError

COMPRESSIONS = (".gz", ".zst")


def uncompressed_suffix(path: Path) -> str:
    """The suffix that tells the format: `.jsonl` of `corpus.jsonl.gz`."""
    return Path(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Opens a plain, gzip or Zstandard file; damage found while reading raises `InputError`."""
    try:
        with _open(path) as file:
            yield file
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the machine's, not the file's
            raise
        raise InputError(
            f"A compressed file of the corpus is truncated or damaged ({error}); copy it again. "
            f"Received: {str(path)!r}."
        ) from error


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if path.suffix == ".zst":
        # Arrow's reader, unlike that of the `zstandard` package, notices a file that was cut.
        stream = import_pyarrow(path).input_stream(str(path), compression="zstd")
        return io.BufferedReader(stream)
    return path.open("rb")


def import_pyarrow(path: Path) -> Any:
    """The package `pyarrow`, or an `InputError` that says why it is needed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(
            "Parquet and Zstandard files need the package `pyarrow`; install xtr-tf[train]. "
            f"Received: {str(path)!r}."
        ) from error
    return pa
