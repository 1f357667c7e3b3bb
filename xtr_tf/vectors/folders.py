"""Folders whose files are read by name, wherever they are.

A `Folder` is on this machine. `RemoteFolder` (`remote.py`) copies a file when it is first read, so that a
reader of one file of a large directory does not wait for the others. Knows nothing about the content of
files.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

#: End of the name of a file that holds the address of another one, which belongs in its place.
ADDRESS = ".address"


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder on this machine.

    Attributes:
        address: Its path.
    """

    address: str

    @property
    def path(self) -> Path:
        """The path of the folder, or of its copy on this machine."""
        return Path(self.address)

    @property
    def is_here(self) -> bool:
        """Whether all files are on this machine."""
        return True

    def is_elsewhere(self, name: str) -> bool:
        """Returns whether only the address of a file is known.

        Args:
            name: Its path below the folder.

        Returns:
            False if the file is in this folder, or should be.
        """
        return self.path.joinpath(name + ADDRESS).is_file()

    def file(self, name: str) -> Path:
        """Returns the path of a file, which is on this machine afterwards.

        Args:
            name: Its path below the folder.

        Returns:
            The path.
        """
        return self.path / name

    def folder(self, name: str) -> Path:
        """Returns the path of a folder below, whose files are on this machine afterwards.

        Args:
            name: Its path below the folder.

        Returns:
            The path.
        """
        return self.path / name

    def below(self, name: str) -> Folder:
        """Returns a folder below, without reading anything.

        Args:
            name: Its path below the folder.

        Returns:
            The folder.
        """
        return Folder(str(self.path / name))

    def without_copies(self) -> Folder:
        """Returns the same folder with copies of its own, which a reader of few files soon releases."""
        return self

    def link(self, name: str, target: Path) -> None:
        """Makes a file available under a second path, with a hard link if the file system has them.

        Args:
            name: The file, which is never changed afterwards.
            target: The second path.
        """
        try:
            os.link(self.path / name, target)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(self.path / name, target)


def folder_of(directory: str | Path | Folder) -> Folder:
    """Returns a folder for whatever names one.

    Args:
        directory: A path on this machine, or a folder.

    Returns:
        The folder.
    """
    return directory if isinstance(directory, Folder) else Folder(str(directory))
