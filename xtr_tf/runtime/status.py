"""Errors of the C library as Python exceptions.

TensorFlow's status codes are the same as gRPC's, so that a server can pass them on unchanged.
"""

from __future__ import annotations

import re

from xtr_tf.errors import InputError

INVALID_ARGUMENT = 3

# "assertion failed: [words] [values]\n\t [[{{node ...}}]]": users need only the words and values.
_ASSERTION = "assertion failed: ["
_NODES = re.compile(r"\s*\[\[\{\{(function_)?node .*", re.DOTALL)


class StatusError(RuntimeError):
    """A call to TensorFlow failed.

    Attributes:
        code: TensorFlow's (and gRPC's) status code.
        message: TensorFlow's message, without the names of graph nodes.
    """

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = readable(message)
        super().__init__(self.message)


class InvalidArgumentError(StatusError, InputError):
    """The model refused its inputs."""


def readable(message: str) -> str:
    """Reduces TensorFlow's message to its sentence."""
    message = _NODES.sub("", message, count=1).strip()
    _, found, assertion = message.partition(_ASSERTION)
    if not found:
        return message
    sentence = " ".join(assertion.removesuffix("]").split("] [")).strip()
    return sentence if sentence.endswith(".") else f"{sentence}."


def status_error(code: int, message: str) -> StatusError:
    """Returns the exception for a status that is not OK.

    Args:
        code: Status code of TensorFlow and gRPC.
        message: TensorFlow's message.

    Returns:
        An `InvalidArgumentError` if the inputs are invalid, else a `StatusError`.
    """
    kind = InvalidArgumentError if code == INVALID_ARGUMENT else StatusError
    return kind(code, message)
