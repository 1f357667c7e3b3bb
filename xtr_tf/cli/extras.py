"""What a command says where an optional part of the package is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xtr_tf.errors import InputError


@contextmanager
def needs_extra(activity: str, extra: str) -> Iterator[None]:
    """Turns a failed import into one sentence.

    Args:
        activity: What the command was about to do, such as `Serving`.
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
