"""The one exception for bad input; the command line prints it as a sentence instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class InputError(ValueError):
    """What the caller gave cannot be used.

    The message is one sentence: what was wrong, what to do, and `Received: ...` last.
    """


def require(condition: bool, message: str, received: Any) -> None:
    """Raises `InputError` with `message` and what was received unless `condition` holds.

    Args:
        condition: What must hold.
        message: A sentence that says so.
        received: What was given instead.

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
    """Turns a failed import into one sentence, where an optional part of the package is not installed.

    Args:
        activity: What was about to be done, such as `Serving`.
        extra: The extra of `pyproject.toml` that brings the packages.

    Raises:
        InputError: A package of the extra is missing.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{activity} needs further packages; install `xtr-tf[{extra}]`. Received: {error}."
        ) from None
