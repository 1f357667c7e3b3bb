"""The exception for bad input. The command line prints its message instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class InputError(ValueError):
    """The input cannot be used.

    The message says what is wrong and what to do, and ends with `Received: ...`.
    """


def require(condition: bool, message: str, received: Any) -> None:
    """Raises `InputError` unless `condition` holds.

    Args:
        condition: The condition that must hold.
        message: A sentence that states the condition.
        received: The value that was given.

    Raises:
        InputError: The condition does not hold.

    Example:
        >>> require(0 <= 2 <= 1, "`alpha` must be between 0 and 1.", 2)
        Traceback (most recent call last):
        xtr_tf.errors.InputError: `alpha` must be between 0 and 1. Received: 2.
    """
    if not condition:
        raise InputError(f"{message} Received: {received!r}.")


@contextmanager
def needs_extra(activity: str, extra: str) -> Iterator[None]:
    """Turns a failed import in the block into an `InputError` that names the extra to install.

    Args:
        activity: What needs the packages, such as `Serving`.
        extra: The extra in `pyproject.toml` that installs them.

    Raises:
        InputError: A package of the extra is missing.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{activity} needs additional packages; install `xtr-tf[{extra}]`. Received: {error}."
        ) from None
