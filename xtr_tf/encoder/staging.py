"""Directories that appear whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xtr_tf.errors import InputError


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
