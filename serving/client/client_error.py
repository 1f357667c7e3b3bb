"""The one exception that a client raises."""

from __future__ import annotations

import grpc


class ClientError(Exception):
    """The server refused, failed or could not be reached.

    Attributes:
        code: gRPC's status.
        message: What was said about it, one sentence.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
