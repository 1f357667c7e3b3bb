"""A file system that this machine's paths do not reach, made for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apache_beam.io.localfilesystem import LocalFileSystem

SCHEME = "far"


class FarFileSystem(LocalFileSystem):
    """`far://bucket/...`, kept in a local folder. `read` lists the files that were read."""

    root: Path
    read: list[str]

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self._local = LocalFileSystem(pipeline_options)

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def _near(self, path: str) -> str:
        assert path.startswith(f"{SCHEME}://"), path
        return str(self.root / path.removeprefix(f"{SCHEME}://"))

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def exists(self, path: str) -> bool:
        return self._local.exists(self._near(path))

    def mkdirs(self, path: str) -> None:
        self._local.mkdirs(self._near(path))

    def create(self, path: str, *args: Any) -> Any:
        return self._local.create(self._near(path), *args)

    def open(self, path: str, *args: Any) -> Any:
        self.read.append(path.removeprefix(f"{SCHEME}://"))
        return self._local.open(self._near(path), *args)

    def delete(self, paths: list[str]) -> None:
        self._local.delete([self._near(path) for path in paths])

    def match(self, patterns: list[str], limits: Any = None) -> Any:
        found = self._local.match([self._near(pattern) for pattern in patterns], limits)
        for result in found:
            for metadata in result.metadata_list:
                metadata.path = f"{SCHEME}://{Path(metadata.path).relative_to(self.root)}"
        return found


def flip_last_bit(path: Path) -> None:
    """Damages a file as storage may."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
