"""`python -m serving.health HOST:PORT [AUTHORITIES]` exits with 0 if the server reports that it is serving.

For container engines that check health with a command; Kubernetes has its own gRPC probes. For a server
with TLS, AUTHORITIES is a PEM file with the certificate authorities to trust.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 4.0


def is_serving(target: str, authorities: Path | None = None) -> bool:
    """Checks the health of a server once, with gRPC's health protocol.

    Args:
        target: `host:port` of the server.
        authorities: PEM file with certificate authorities to trust. None connects without TLS.

    Returns:
        Whether the server answered SERVING in time.
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
