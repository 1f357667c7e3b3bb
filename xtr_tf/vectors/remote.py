"""Files and folders on any file system that Beam supports, such as `gs://`, `s3://` and `hdfs://`.

These have no atomic folders. So a folder that was sent gets a file with the checksums of the others, which is
written last: without it, the folder is incomplete. Whoever receives a folder compares them.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import uuid
import weakref
from functools import cached_property
from pathlib import Path
from typing import IO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from xtr_tf.errors import InputError
from xtr_tf.files import MARKER, atomic_directory, changed_files, sha256_of, writing
from xtr_tf.vectors.folders import ADDRESS, Folder

_MIME_TYPE = "application/octet-stream"


@dataclasses.dataclass(frozen=True)
class RemoteFolder(Folder):
    """A folder on another file system. A file is copied to this machine when it is first read.

    Copies are removed together with this object and the folders below it.

    Attributes:
        address: Its address, such as `gs://bucket/vectors`.

    Example:
        >>> TokenVectors.open(RemoteFolder("gs://bucket/vectors")).document_ids
    """

    @cached_property
    def _copies(self) -> _Copies:
        return _Copies()

    @property
    def path(self) -> Path:
        """The folder of the copies."""
        return self._copies.path

    @property
    def is_here(self) -> bool:
        """Whether all files are on this machine."""
        return False

    def is_elsewhere(self, name: str) -> bool:
        """Returns whether only the address of a file is known.

        Args:
            name: Its path below the folder.

        Returns:
            True, whether it was copied or not.
        """
        return True

    def file(self, name: str) -> Path:
        """Returns the path of a file, which is copied first unless it was.

        Args:
            name: Its path below the folder.

        Returns:
            The path.

        Raises:
            InputError: If the file cannot be read.
        """
        path = self.path / name
        if not path.is_file():
            copy_in(join(self.address, name), path)
        return path

    def folder(self, name: str) -> Path:
        """Returns the path of a folder below, whose files are copied first unless they were.

        Args:
            name: Its path below the folder.

        Returns:
            The path.

        Raises:
            InputError: If a file cannot be read.
        """
        for found in list_files(join(self.address, name)):
            self.file(f"{name}/{found}")
        return self.path / name

    def below(self, name: str) -> Folder:
        """Returns a folder below, without reading anything.

        Args:
            name: Its path below the folder.

        Returns:
            The folder.
        """
        return _Below(join(self.address, name), self, name)

    def without_copies(self) -> Folder:
        """Returns the same folder with copies of its own, which a reader of few files soon releases."""
        return RemoteFolder(self.address)

    def link(self, name: str, target: Path) -> None:
        """Writes the address of a file next to a path, in place of the file.

        Args:
            name: The file, which is never changed afterwards.
            target: The path.
        """
        target.with_name(target.name + ADDRESS).write_text(join(self.address, name), encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class _Below(RemoteFolder):
    """A folder in a remote folder, with its copies in those of the other."""

    above: RemoteFolder
    name: str

    @property
    def path(self) -> Path:
        """The folder of the copies."""
        return self.above.path / self.name


class _Copies:
    """A folder that is removed with this object. A pickled object gets a new one."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="xtr-tf-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[type[_Copies], tuple[()]]:
        return _Copies, ()


def send(source: Path, address: str) -> None:
    """Sends a file, or the files of a folder, and then their checksums.

    Args:
        source: A file or folder on this machine.
        address: The folder to send to.
    """
    folder = source.parent if source.is_file() else source
    paths = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    listing = ""
    for path in paths:
        name = path.relative_to(folder).as_posix()
        copy_out(path, join(address, name))
        listing += f"{sha256_of(path)}  {name}\n"
    with _creating(join(address, MARKER)) as marker:
        marker.write(listing.encode())


def is_sent(address: str) -> bool:
    """Returns whether all files have arrived.

    Args:
        address: The folder that was sent to.

    Returns:
        True if the checksums are there.
    """
    return bool(FileSystems.exists(join(address, MARKER)))


def receive(address: str, path: Path) -> None:
    """Brings a file or folder that was sent. It appears when it is complete.

    Args:
        address: The folder that it was sent to.
        path: The file, if it has a suffix, or folder to write. An existing one is replaced.

    Raises:
        InputError: If a file was damaged. Then the folder no longer counts as sent.
    """
    if path.suffix:
        with tempfile.TemporaryDirectory(dir=path.parent) as aside:
            _bring(address, Path(aside))
            Path(aside, path.name).replace(path)
        return
    with atomic_directory(path, overwrite=True) as folder:
        _bring(address, folder)


def _bring(address: str, folder: Path) -> None:
    for name in list_files(address):
        copy_in(join(address, name), folder / name)
    if not (folder / MARKER).is_file():
        raise InputError(f"Files were not sent completely; run the job again. Received: {address!r}.")
    if changed := changed_files(folder):
        FileSystems.delete([join(address, MARKER)])
        raise InputError(
            "A file was damaged on its way from a worker, or where it is stored; run the job again, which "
            f"makes it again and keeps the others. Received: {join(address, changed[0])!r}."
        )
    (folder / MARKER).unlink()


def join(address: str, name: str) -> str:
    """Returns the address of a file or folder below another one.

    Args:
        address: Address of a folder.
        name: A path below it.

    Returns:
        The address.
    """
    return str(FileSystems.join(address, *name.split("/")))


def list_files(address: str) -> list[str]:
    """Returns the files of a folder and of the folders below it.

    Args:
        address: The folder.

    Returns:
        Paths below the folder.
    """
    found = FileSystems.match([join(address, "**")])[0].metadata_list
    return sorted(file.path[len(address) :].lstrip("/") for file in found)


def copy_out(path: Path, address: str) -> None:
    """Copies a file to another file system.

    Args:
        path: A file on this machine.
        address: Its address there.
    """
    with path.open("rb") as source, _creating(address) as sink:
        shutil.copyfileobj(source, sink)


def copy_in(address: str, path: Path) -> None:
    """Copies a file to this machine, completely or not at all.

    Args:
        address: The address of the file.
        path: The path to write.

    Raises:
        InputError: If the file cannot be read.
        StorageError: If this machine's disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with (
            FileSystems.open(address, _MIME_TYPE, CompressionTypes.UNCOMPRESSED) as stream,
            writing(path),
            unfinished.open("wb") as file,
        ):
            shutil.copyfileobj(stream, file)
        unfinished.replace(path)
    except (BeamIOError, FileNotFoundError) as error:
        raise InputError(
            f"A remote file cannot be read; check its address and your permissions. Received: {address!r}."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _creating(address: str) -> IO[bytes]:
    parent = FileSystems.split(address)[0]
    if not FileSystems.exists(parent):
        FileSystems.mkdirs(parent)
    created: IO[bytes] = FileSystems.create(address, _MIME_TYPE, CompressionTypes.UNCOMPRESSED)
    return created
