"""TensorFlow's file system in memory, for Beam, so that both see a `ram://` that stands for a cloud's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import tensorflow as tf
from apache_beam.io.filesystem import FileMetadata, FileSystem


class RamFileSystem(FileSystem):
    """`ram://...`. `read` lists the files that were read through Beam."""

    read: ClassVar[list[str]] = []

    @classmethod
    def scheme(cls) -> str:
        return "ram"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def has_dirs(self) -> bool:
        return True

    def mkdirs(self, path: str) -> None:
        tf.io.gfile.makedirs(path)

    def exists(self, path: str) -> bool:
        return bool(tf.io.gfile.exists(path))

    def create(self, path: str, *args: Any) -> Any:
        with contextlib.suppress(tf.errors.NotFoundError):
            tf.io.gfile.remove(path)  # otherwise it would append
        return tf.io.gfile.GFile(path, "wb")

    def open(self, path: str, *args: Any) -> Any:
        self.read.append(path)
        if not tf.io.gfile.exists(path):
            raise FileNotFoundError(path)
        return tf.io.gfile.GFile(path, "rb")

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            tf.io.gfile.remove(path)

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            tf.io.gfile.copy(source, destination, overwrite=True)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            tf.io.gfile.rename(source, destination, overwrite=True)

    def size(self, path: str) -> int:
        return int(tf.io.gfile.stat(path).length)

    def last_updated(self, path: str) -> float:
        return float(tf.io.gfile.stat(path).mtime_nsec) / 1e9

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for folder, _, names in tf.io.gfile.walk(dir_or_prefix):
            for name in names:
                yield self.metadata(f"{folder.rstrip('/')}/{name}")
