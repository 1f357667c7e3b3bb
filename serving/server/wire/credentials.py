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

    def replace(self, other: BearerTokens) -> None:
        """Takes the tokens of another in place of its own."""
        self._tokens = other._tokens

    def accepts(self, authorization: str | None) -> bool:
        """Whether an `authorization` header has one of the tokens."""
        header = authorization or ""
        given = header[len(_SCHEME) :].strip().encode("utf-8", "replace")
        # Every token is compared, each in constant time, so that time tells nothing.
        matches = [hmac.compare_digest(given, token) for token in self._tokens]
        return header.lower().startswith(_SCHEME) and any(matches)

    def check(self, authorization: str | None) -> None:
        """Checks an `authorization` header.

        Raises:
            RequestError: UNAUTHENTICATED.
        """
        if not self._tokens or self.accepts(authorization):
            return
        if not (authorization or "").lower().startswith(_SCHEME):
            raise RequestError(Code.UNAUTHENTICATED, "Send a token: `authorization: Bearer TOKEN`.")
        raise RequestError(Code.UNAUTHENTICATED, "The token is not valid.")


class Access:
    """Who may ask the models, and who may change which models there are.

    Args:
        tokens: Of those who may ask.
        admin_tokens: Of those who may change the configuration; they may ask, too.
        open_reload: Whether those who may ask may change the configuration where there are no admin tokens.
    """

    def __init__(
        self,
        tokens: BearerTokens | None = None,
        admin_tokens: BearerTokens | None = None,
        open_reload: bool = True,
    ) -> None:
        self.tokens = tokens or BearerTokens()
        self.admin_tokens = admin_tokens or BearerTokens()
        self._open_reload = open_reload

    def check(self, authorization: str | None) -> None:
        """Checks who asks; raises UNAUTHENTICATED."""
        if not self.admin_tokens.accepts(authorization):
            self.tokens.check(authorization)

    def check_admin(self, authorization: str | None) -> None:
        """Checks who wants to change the configuration; raises UNAUTHENTICATED or PERMISSION_DENIED."""
        if self.admin_tokens.required:
            self.admin_tokens.check(authorization)
        elif not self._open_reload:
            raise RequestError(
                Code.PERMISSION_DENIED,
                "Requests do not change the configuration of this server; start it with an admin token file.",
            )


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

    @property
    def paths(self) -> list[Path]:
        """The files there are."""
        return [file for file in (self.certificate, self.key, self.client_ca) if file is not None]

    def ssl_context(self) -> ssl.SSLContext:
        """Returns a context for an HTTPS server, made of the files as they are now."""
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


class Certificates:
    """The server's certificates, which new connections get as they are in the files.

    Args:
        files: Where they are.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._contents = self._read()
        self._context = files.ssl_context()
        self.context = files.ssl_context()
        # Asked for every connection: the one below is a door, what is behind it may change.
        self.context.sni_callback = self._choose_context

    def reload(self) -> None:
        """Reads the files again; raises `InputError` and changes nothing if they do not fit together."""
        contents, context = self._read(), self._files.ssl_context()
        self._contents, self._context = contents, context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns credentials for a gRPC server."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._configuration, self._files.client_ca is not None
        )

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        # gRPC reports a bad file only by refusing every connection; `ssl` reads the files first.
        self._files.ssl_context()
        authorities = self._files.client_ca
        return (
            self._files.key.read_bytes(),
            self._files.certificate.read_bytes(),
            authorities.read_bytes() if authorities else None,
        )

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        key, certificate, authorities = self._contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)

    def _choose_context(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._context


class Watched:
    """Notices when files have changed.

    Args:
        files: Which.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether a file has changed since the last look."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> list[tuple[int, int, int] | None]:
        # A secret that Kubernetes mounts is replaced by moving a link: the file behind it is another.
        found: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                status = file.stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append(None)
        return found
