"""What is on disk under the base path of a model: its versions and their size.

A version may still be in the middle of being copied, so nothing here assumes that a directory is complete or
that it stays.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from serving.server.status import Code, RequestError
from xtr_tf.files import MARKER, changed_files

#: Name, size and modification time of every file.
Fingerprint = tuple[tuple[str, int, int], ...]


def find_versions(base_path: Path, require_marker: bool = False) -> dict[int, Path]:
    """Finds the versions of a model: the subdirectories whose name is a number.

    Args:
        base_path: The model's directory.
        require_marker: Whether to ignore versions without a marker file.

    Returns:
        The directory of each version. Empty if `base_path` cannot be read.
    """
    found: dict[int, Path] = {}
    try:
        entries = list(os.scandir(base_path))
    except OSError:
        return found
    for entry in entries:
        if not (entry.name.isascii() and entry.name.isdigit() and entry.is_dir()):
            continue
        if not require_marker or Path(entry.path, MARKER).is_file():
            found[int(entry.name)] = Path(entry.path)
    return found


def check_whole(directory: Path) -> None:
    """Checks that a version with a marker file has exactly the files that the marker lists.

    Args:
        directory: The version. Without a marker, there is nothing to check.

    Raises:
        RequestError: DATA_LOSS, if files are missing or differ.
    """
    if (directory / MARKER).is_file() and (different := changed_files(directory)):
        raise RequestError(
            Code.DATA_LOSS,
            f"{len(different)} files of the version are missing or differ from its marker, such as "
            f"{different[0]}; copy it again.",
        )


def fingerprint(directory: Path) -> Fingerprint:
    """Returns a fingerprint of all files below `directory`. It changes when a file changes."""
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


# Peak memory while a version is loaded, as a multiple of its size on disk, if its model card has no figure.
# ScaNN unpacks its codes and keeps both forms. TensorFlow Serving's estimate is 1.2.
_LOADED_TO_FILES = {"scann": 6.5}
_LOADED_TO_FILES_OF_OTHERS = 1.5
_MODEL_CARD = "model_card.json"
_CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(directory: Path) -> int:
    """Returns the memory that a version needs: the figure from its model card, or an estimate by its size."""
    try:
        card = json.loads((directory / _MODEL_CARD).read_bytes())
        if memory := card.get("memory"):
            return max(int(memory["peak_bytes"]), int(memory["resident_bytes"]))
        kind = card["index"]["kind"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        kind = ""
    return int(size_in_bytes(directory) * _LOADED_TO_FILES.get(kind, _LOADED_TO_FILES_OF_OTHERS))


def check_room_for(needed: int) -> None:
    """Checks that there is enough free memory for another version.

    Args:
        needed: The bytes that the version needs.

    Raises:
        RequestError: RESOURCE_EXHAUSTED, if less memory is free.
    """
    available = available_bytes()
    if needed > available:
        raise RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"The version needs about {needed >> 20} MiB, but only {available >> 20} MiB are free.",
        )


def available_bytes() -> int:
    """Returns the free memory of the machine, or of the container if its limit is lower."""
    return min(_machine_available(), _container_available())


def _machine_available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62


def _container_available() -> int:
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        fields = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return 1 << 62
    # Cached pages of files count as used, but the kernel frees them when memory is needed.
    cached = sum(int(fields.get(name, 0)) for name in ("inactive_file", "active_file"))
    return max(0, limit - used + cached)
