"""The one exception for bad input; the command line prints it as a sentence instead of a traceback."""

from typing import Any


class InputError(ValueError):
    """What the caller gave cannot be used.

    The message is one sentence: what was wrong, what to do, and `Received: ...` last.
    """


def require(condition: bool, message: str, received: Any) -> None:
    """Raises `InputError` with `message` and what was received unless `condition` holds."""
    if not condition:
        raise InputError(f"{message} Received: {received!r}.")
