"""What lies on disk under a model's base path: versions, their state and their size.

A version may be looked at while it is still being copied, so nothing here trusts a directory to
be complete or to stay.
"""

from __future__ import annotations

import os
from pathlib import Path

#: Name, size and modification time of every file; equal means unchanged.
Fingerprint = tuple[tuple[str, int, int], ...]


def find_versions(base_path: Path) -> dict[int, Path]:
    """Returns the subdirectories that are named by a number, `{version: path}`."""
    found: dict[int, Path] = {}
    try:
        entries = list(os.scandir(base_path))
    except OSError:
        return found
    for entry in entries:
        if entry.name.isascii() and entry.name.isdigit() and entry.is_dir():
            found[int(entry.name)] = Path(entry.path)
    return found


def fingerprint(directory: Path) -> Fingerprint:
    """Returns what a change of any file below `directory` would change."""
    files: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.stat()
            except OSError:
                continue
            files.append((str(path.relative_to(directory)), status.st_size, status.st_mtime_ns))
    return tuple(sorted(files))


def size_in_bytes(directory: Path) -> int:
    """Returns the size of all files below `directory`."""
    return sum(size for _, size, _ in fingerprint(directory))
