"""Certificates and keys, for gRPC and for REST."""

from __future__ import annotations

import dataclasses
import ssl
from pathlib import Path

import grpc

from xtr_tf.errors import InputError


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
