"""Everything that can be chosen about a server, in one place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from serving.server.models.config import ModelConfig
from serving.server.requests.batching import BatchingOptions
from serving.server.requests.limits import Limits
from serving.server.wire.credentials import TlsFiles
from xtr_tf.errors import InputError
from xtr_tf.runtime import SessionOptions


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How to serve.

    Attributes:
        models: Models to serve.
        model_config_file: Where `models` came from, if it is to be watched for changes.
        host: Address to bind; loopback, unless the server is meant for others.
        port: gRPC port; 0 chooses a free one.
        rest_port: REST port; 0 chooses a free one, None for no REST.
        poll_seconds: How often the models' directories are looked at; 0 for once.
        workers: Model calls at the same time; 0 for one per core.
        batching: Bounds of batches.
        session: How TensorFlow runs the models.
        limits: Bounds on requests.
        rest_timeout_seconds: Deadline of a REST request, which carries none of its own.
        drain_seconds: How long requests in progress may take after SIGTERM.
        log_sampling: Share of requests that are logged.
        tls: Certificates, or None for plain text.
        token_file: Bearer tokens, or None for no check.
        prefer_tensor_content: Whether answers carry numbers as raw bytes.
        playground: Whether the page to try things out is served.
    """

    models: tuple[ModelConfig, ...]
    model_config_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int | None = 8501
    poll_seconds: float = 1.0
    workers: int = 0
    batching: BatchingOptions = dataclasses.field(default_factory=BatchingOptions)
    session: SessionOptions = dataclasses.field(default_factory=lambda: SessionOptions(rewrite_graph=False))
    limits: Limits = dataclasses.field(default_factory=Limits)
    rest_timeout_seconds: float = 30.0
    drain_seconds: float = 30.0
    log_sampling: float = 0.01
    tls: TlsFiles | None = None
    token_file: Path | None = None
    prefer_tensor_content: bool = False
    playground: bool = False

    def __post_init__(self) -> None:
        for name in ("port", "rest_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= 65535:
                raise InputError(f"`{name}` must be between 0 and 65535. Received: {port}.")
        for name in ("poll_seconds", "workers", "drain_seconds"):
            if getattr(self, name) < 0:
                raise InputError(f"`{name}` must not be negative. Received: {getattr(self, name)}.")
        if self.rest_timeout_seconds <= 0:
            raise InputError(
                f"`rest_timeout_seconds` must be positive. Received: {self.rest_timeout_seconds}."
            )
        if self.playground and self.rest_port is None:
            raise InputError("The playground is served over REST; give a REST port. Received: none.")
