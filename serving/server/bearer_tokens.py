"""The optional check of bearer tokens, the same for gRPC and REST."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path

from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError

_SCHEME = "bearer "
_MIN_LENGTH = 16


class BearerTokens:
    """Tokens that open the server; with none, it is open to all who can reach it.

    Args:
        tokens: Each is enough on its own, so that one can be replaced by the next without a gap.
    """

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self._tokens = [token.encode() for token in tokens]

    @classmethod
    def read(cls, file: Path) -> BearerTokens:
        """Reads a file with one token a line."""
        tokens = [line.strip() for line in file.read_text().splitlines() if line.strip()]
        if not tokens or min(map(len, tokens)) < _MIN_LENGTH:
            raise InputError(
                f"A token file holds one token a line, each of at least {_MIN_LENGTH} characters. "
                f"Received: {file}."
            )
        return cls(tokens)

    @property
    def required(self) -> bool:
        """Whether requests need a token."""
        return bool(self._tokens)

    def check(self, authorization: str | None) -> None:
        """Checks an `authorization` header.

        Raises:
            RequestError: UNAUTHENTICATED.
        """
        if not self._tokens:
            return
        header = authorization or ""
        if not header.lower().startswith(_SCHEME):
            raise RequestError(Code.UNAUTHENTICATED, "Send a token: `authorization: Bearer TOKEN`.")
        given = header[len(_SCHEME) :].strip().encode("utf-8", "replace")
        # Every token is compared, each in constant time, so that time tells nothing.
        matches = [hmac.compare_digest(given, token) for token in self._tokens]
        if not any(matches):
            raise RequestError(Code.UNAUTHENTICATED, "The token is not valid.")
