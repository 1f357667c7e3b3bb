"""Who may talk to the server, the same for gRPC and REST: bearer tokens and TLS, both optional.

Reads files and checks headers; knows nothing of requests.
"""

from __future__ import annotations

import dataclasses
import hmac
import ssl
from collections.abc import Sequence
from pathlib import Path

import grpc

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
        """Reads a file with one token per line."""
        tokens = [line.strip() for line in file.read_text().splitlines() if line.strip()]
        if not tokens or min(map(len, tokens)) < _MIN_LENGTH:
            raise InputError(
                f"A token file holds one token per line, each of at least {_MIN_LENGTH} characters. "
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


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """PEM files.

    Attributes:
        certificate: The server's certificate, with its chain.
        key: Its private key.
        client_ca: Authorities whose clients are let in; without it, clients need no certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns credentials for a gRPC server."""
        # gRPC reports a bad file only by refusing every connection; `ssl` reads the files first.
        self.ssl_context()
        return grpc.ssl_server_credentials(
            [(self.key.read_bytes(), self.certificate.read_bytes())],
            root_certificates=self.client_ca.read_bytes() if self.client_ca else None,
            require_client_auth=self.client_ca is not None,
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Returns a context for an HTTPS server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"The certificate, its key or the client authorities cannot be read ({error}). "
                f"Received: {self.certificate}, {self.key}, {self.client_ca}."
            ) from None
        return context
