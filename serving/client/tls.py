"""Credentials for encrypted connections."""

from __future__ import annotations

import grpc


def tls_credentials(
    ca: bytes | None = None, key: bytes | None = None, certificate: bytes | None = None
) -> grpc.ChannelCredentials:
    """Returns credentials for TLS.

    Args:
        ca: Authorities to trust, PEM; the system's if None.
        key: The client's own key, for servers that ask for a certificate.
        certificate: The client's certificate.
    """
    return grpc.ssl_channel_credentials(ca, key, certificate)
