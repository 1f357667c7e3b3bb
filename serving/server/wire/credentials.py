"""Who may use the server, over gRPC and REST: bearer tokens and TLS, both optional.

Reads files and checks headers. Knows nothing about requests.
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
    """The tokens that callers may use. Without any, the server accepts all callers.

    Args:
        tokens: Any one of them is enough, so that tokens can be rotated without interruption.
    """

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self._tokens = [token.encode() for token in tokens]

    @classmethod
    def read(cls, file: Path) -> BearerTokens:
        """Reads a file with one token per line.

        Args:
            file: The file to read.

        Returns:
            The tokens.

        Raises:
            InputError: The file is empty, or a token is too short.
        """
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
        """Replaces the tokens with those of `other`."""
        self._tokens = other._tokens

    def accepts(self, authorization: str | None) -> bool:
        """Whether an `authorization` header contains one of the tokens."""
        header = authorization or ""
        given = header[len(_SCHEME) :].strip().encode("utf-8", "replace")
        # Compare all tokens, each in constant time, so that timing reveals nothing.
        matches = [hmac.compare_digest(given, token) for token in self._tokens]
        return header.lower().startswith(_SCHEME) and any(matches)

    def check(self, authorization: str | None) -> None:
        """Checks an `authorization` header.

        Args:
            authorization: The header, or None if the request has none.

        Raises:
            RequestError: UNAUTHENTICATED, if a token is required and the header has no valid one.
        """
        if not self._tokens or self.accepts(authorization):
            return
        if not (authorization or "").lower().startswith(_SCHEME):
            raise RequestError(Code.UNAUTHENTICATED, "Send a token: `authorization: Bearer TOKEN`.")
        raise RequestError(Code.UNAUTHENTICATED, "The token is not valid.")


class Access:
    """Who may query the models, and who may change the configuration.

    Args:
        tokens: Tokens that may query the models.
        admin_tokens: Tokens that may change the configuration and query the models.
        open_reload: Whether all callers may change the configuration if there are no admin tokens.
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
        """Checks that a caller may query the models.

        Args:
            authorization: The `authorization` header, or None.

        Raises:
            RequestError: UNAUTHENTICATED, if the header has no valid token.
        """
        if not self.admin_tokens.accepts(authorization):
            self.tokens.check(authorization)

    def check_admin(self, authorization: str | None) -> None:
        """Checks that a caller may change the configuration.

        Args:
            authorization: The `authorization` header, or None.

        Raises:
            RequestError: UNAUTHENTICATED, if the header has no valid admin token, or PERMISSION_DENIED, if
                requests cannot change the configuration of this server.
        """
        if self.admin_tokens.required:
            self.admin_tokens.check(authorization)
        elif not self._open_reload:
            raise RequestError(
                Code.PERMISSION_DENIED,
                "Requests cannot change the configuration of this server; start it with an admin token file.",
            )


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """PEM files for TLS.

    Attributes:
        certificate: The server's certificate with its chain.
        key: The server's private key.
        client_ca: Authorities of client certificates. Without it, clients need no certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """The files that are set."""
        return [file for file in (self.certificate, self.key, self.client_ca) if file is not None]

    def ssl_context(self) -> ssl.SSLContext:
        """Returns a context for an HTTPS server, from the current files.

        Raises:
            InputError: A file cannot be read, or the key does not belong to the certificate.
        """
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
    """The server's certificates. New connections use the files that were read last.

    Args:
        files: The PEM files.

    Raises:
        InputError: The files cannot be read or do not belong together.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._contents = self._read()
        self._context = files.ssl_context()
        self.context = files.ssl_context()
        # The server keeps this context; the callback gives every new connection the current one.
        self.context.sni_callback = self._choose_context

    def reload(self) -> None:
        """Reads the files again.

        Raises:
            InputError: The files cannot be read or do not belong together. Nothing changes then.
        """
        contents, context = self._read(), self._files.ssl_context()
        self._contents, self._context = contents, context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns credentials for a gRPC server."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._configuration, self._files.client_ca is not None
        )

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        # gRPC reports bad files only by refusing all connections, so `ssl` checks them first.
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
        files: The files to watch.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether a file has changed since the last call."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> list[tuple[int, int, int] | None]:
        # Kubernetes replaces a mounted secret by moving a link, so the inode changes.
        found: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                status = file.stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append(None)
        return found
