"""What lies on disk under a model's base path: versions, their state and their size.

A version may be looked at while it is still being copied, so nothing here trusts a directory to
be complete or to stay.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from serving.server.status import Code, RequestError
from xtr_tf.files import MARKER, changed_files

#: Name, size and modification time of every file; equal means unchanged.
Fingerprint = tuple[tuple[str, int, int], ...]


def find_versions(base_path: Path, require_marker: bool = False) -> dict[int, Path]:
    """Returns the subdirectories that are named by a number, `{version: path}`.

    Args:
        base_path: Where to look.
        require_marker: Whether those without a marker are ignored.
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
    """Raises DATA_LOSS if a version has a marker, which is written last, and not the files that it names."""
    if (directory / MARKER).is_file() and (different := changed_files(directory)):
        raise RequestError(
            Code.DATA_LOSS,
            f"{len(different)} files of the version are missing or not those that its marker names, such as "
            f"{different[0]}: copy it again.",
        )


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


# What a version grows to while it is loaded, in sizes of its files, where its card does not say: ScaNN
# unpacks its codes and keeps them next to what it is given. TensorFlow Serving's own estimate is 1.2.
_LOADED_TO_FILES = {"scann": 6.5}
_LOADED_TO_FILES_OF_OTHERS = 1.5
_MODEL_CARD = "model_card.json"
_CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(directory: Path) -> int:
    """Returns the memory that a version takes: what its export measured, or an estimate by its size."""
    try:
        card = json.loads((directory / _MODEL_CARD).read_bytes())
        if memory := card.get("memory"):
            return max(int(memory["peak_bytes"]), int(memory["resident_bytes"]))
        kind = card["index"]["kind"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        kind = ""
    return int(size_in_bytes(directory) * _LOADED_TO_FILES.get(kind, _LOADED_TO_FILES_OF_OTHERS))


def check_room_for(needed: int) -> None:
    """Raises RESOURCE_EXHAUSTED if a version that needs so much would not fit next to what runs now."""
    available = available_bytes()
    if needed > available:
        raise RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"The version needs about {needed >> 20} MiB and {available >> 20} MiB are free.",
        )


def available_bytes() -> int:
    """Returns the memory that can still be used: the machine's, or less if the container has a limit."""
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
    # Pages of files that were read count as used, and are given up as soon as memory is wanted.
    cached = sum(int(fields.get(name, 0)) for name in ("inactive_file", "active_file"))
    return max(0, limit - used + cached)
