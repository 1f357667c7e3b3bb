"""`<base>/<version>/`: where servers look for models, and how a version appears there atomically."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory


def versions_in(base: Path) -> list[int]:
    """Returns the versions in the base directory of a model.

    Args:
        base: The base directory.

    Returns:
        Version numbers, the smallest first; none if the directory does not exist.
    """
    if not base.is_dir():
        return []
    return sorted(int(path.name) for path in base.iterdir() if path.is_dir() and path.name.isdecimal())


def latest_version(directory: Path) -> Path:
    """Returns the newest version in a base directory, or the directory itself if it is a version.

    Args:
        directory: A base directory, or a version.

    Returns:
        The directory of the version.

    Raises:
        InputError: If it is neither.
    """
    if (directory / "saved_model.pb").is_file():
        return directory
    versions = versions_in(directory)
    if not versions:
        raise InputError(
            "A model is a directory with `saved_model.pb`, or one with numbered versions of it. "
            f"Received: {str(directory)!r}."
        )
    return directory / str(versions[-1])


@contextmanager
def new_version(base: Path, version: int | None) -> Iterator[tuple[Path, Path]]:
    """Provides a directory to write a version into, which is published only if there is no error.

    Args:
        base: The base directory of the model, created if it does not exist.
        version: Version number; one more than the largest if None.

    Yields:
        The directory to write into, and the one it will become.

    Raises:
        InputError: If the version exists, before or after the work.
    """
    if version is None:
        version = (versions_in(base) or [0])[-1] + 1
    final = base / str(version)
    _check_absent(final)
    # Servers treat every directory with a number as its name as a version. A staged one has another name.
    with atomic_directory(final) as staging:
        yield staging, final
        _check_absent(final)


def _check_absent(directory: Path) -> None:
    if directory.exists():
        raise InputError(
            f"This version exists; choose another number, or none for the next. Received: {str(directory)!r}."
        )
