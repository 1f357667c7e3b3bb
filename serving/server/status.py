"""Status codes of requests and states of versions, with the names and numbers of the protocol.

Codes are those of gRPC and TensorFlow; the REST API translates them as TensorFlow Serving does. States of
versions are TensorFlow Serving's. Imports nothing else from the server.
"""

from __future__ import annotations

import enum

import grpc


class Code(enum.IntEnum):
    """Status code of a request, numbered as in gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @property
    def grpc(self) -> grpc.StatusCode:
        """The same code as gRPC's enum."""
        return _GRPC[self]

    @property
    def http(self) -> int:
        """The HTTP status that TensorFlow Serving uses for the code."""
        return _HTTP.get(self, 500)


_GRPC = {Code(status.value[0]): status for status in grpc.StatusCode}
_HTTP = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.UNAUTHENTICATED: 401,
}

_MAX_MESSAGE = 1000


class State(enum.IntEnum):
    """State of a version, numbered as in `ModelVersionStatus.State`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class RequestError(Exception):
    """Ends a request with a status code and one sentence for the caller.

    Args:
        code: The status code.
        message: The sentence. It is sent in HTTP/2 trailers, which are small, so long ones are truncated.
    """

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        self.message = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + " …"
        super().__init__(self.message)


def invalid_argument(message: str) -> RequestError:
    """Returns the error for an invalid request, which the caller should not retry."""
    return RequestError(Code.INVALID_ARGUMENT, message)


def not_found(message: str) -> RequestError:
    """Returns the error for a model or version that is not served."""
    return RequestError(Code.NOT_FOUND, message)
