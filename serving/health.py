"""`python -m serving.health HOST:PORT [AUTHORITIES]`: ends with 0 if the server says that it serves.

For engines that run a command to look after a container; Kubernetes asks by gRPC itself. AUTHORITIES is a PEM
file with those that signed the server's certificate, if it has one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 4.0


def is_serving(target: str, authorities: Path | None = None) -> bool:
    """Asks once, by gRPC's own health protocol; over TLS if there are authorities to trust.

    Args:
        target: `host:port`.
        authorities: Certificates to trust (PEM), for a server with TLS; None for plain text.

    Returns:
        Whether it answers health checks with SERVING.
    """
    if authorities is not None:
        credentials = grpc.ssl_channel_credentials(authorities.read_bytes())
        channel = grpc.secure_channel(target, credentials)
    else:
        channel = grpc.insecure_channel(target)
    with channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_SECONDS
            )
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    sys.exit(not is_serving(sys.argv[1], *map(Path, sys.argv[2:])))
