"""Artifacts of any file system that TensorFlow knows, as local directories.

Models, indexes and reports are read and written by libraries that want real paths. A local
artifact is used where it is; a remote one, such as `gs://bucket/model`, is copied.
"""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf


@contextmanager
def local_input(uri: str) -> Iterator[Path]:
    """Gives an artifact's directory to read from."""
    if not _is_remote(uri):
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        _copy(uri, folder)
        yield Path(folder)


@contextmanager
def local_output(uri: str) -> Iterator[Path]:
    """Gives a directory to write an artifact into; a remote one is copied when all went well."""
    if not _is_remote(uri):
        Path(uri).mkdir(parents=True, exist_ok=True)
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        _copy(folder, uri)


def _is_remote(uri: str) -> bool:
    return "://" in uri


def _copy(source: str, target: str) -> None:
    for folder, _, names in tf.io.gfile.walk(source):
        below = folder[len(source) :].strip("/")
        tf.io.gfile.makedirs(posixpath.join(target, below))
        for name in names:
            file = posixpath.join(target, below, name)
            tf.io.gfile.copy(posixpath.join(folder, name), file, overwrite=True)
