"""`xtr-tf serve`: answer queries over gRPC and REST, as TensorFlow Serving does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.extras import needs_extra
from xtr_tf.errors import InputError

if TYPE_CHECKING:
    from serving.server.model_config import ModelConfig
    from serving.server.model_server import ModelServer
    from serving.server.tls_files import TlsFiles

_model = partial(typer.Option, rich_help_panel="Models")
_network = partial(typer.Option, rich_help_panel="Network")
_batch = partial(typer.Option, rich_help_panel="Batches")
_limit = partial(typer.Option, rich_help_panel="Limits")


def serve(
    model_base: Annotated[
        Path | None,
        _model(help="Directory with one subdirectory a version, named by its number."),
    ] = None,
    model_name: Annotated[str, _model(help="What requests call the model.")] = "default",
    model_config_file: Annotated[
        Path | None,
        _model(help="Several models, policies and labels: ModelServerConfig as text."),
    ] = None,
    poll_seconds: Annotated[float, _model(help="How often to look for new versions; 0 for never.")] = 1.0,
    workers: Annotated[int, _model(help="Model calls at the same time; 0 for one a core.")] = 0,
    host: Annotated[str, _network(help="Address to bind; 0.0.0.0 to be reached by others.")] = "127.0.0.1",
    port: Annotated[int, _network(help="gRPC port; 0 for a free one.")] = 8500,
    rest_port: Annotated[int, _network(help="REST port; 0 for a free one, -1 for none.")] = 8501,
    playground: Annotated[bool, _network("--playground", help="Serve a page to try queries on.")] = False,
    tls_cert: Annotated[Path | None, _network(help="Certificate with its chain, PEM.")] = None,
    tls_key: Annotated[Path | None, _network(help="Its key, PEM.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        _network(help="Ask clients for a certificate of these authorities."),
    ] = None,
    token_file: Annotated[
        Path | None,
        _network(help="Ask clients for one of these bearer tokens."),
    ] = None,
    batching_parameters_file: Annotated[
        Path | None,
        _batch(help="BatchingParameters as text; replaces the next three."),
    ] = None,
    max_batch_size: Annotated[int, _batch(help="Queries of one model call; 1 for no batching.")] = 32,
    batch_timeout_micros: Annotated[int, _batch(help="How long a query waits for company.")] = 0,
    max_enqueued_batches: Annotated[
        int, _batch(help="Batches that may wait before queries are refused.")
    ] = 8,
    max_concurrent: Annotated[int, _limit(help="Requests under way at once.")] = 256,
    max_message_mb: Annotated[int, _limit(help="Size of a request.")] = 8,
    max_queries: Annotated[int, _limit(help="Queries of one request.")] = 256,
    max_query_bytes: Annotated[int, _limit(help="Length of a query.")] = 8192,
    max_k_prime: Annotated[int, _limit(help="k' times the queries of one request.")] = 200_000,
    rest_timeout_ms: Annotated[int, _limit(help="Deadline of REST requests.")] = 30_000,
    drain_seconds: Annotated[float, _limit(help="Time for requests under way after SIGTERM.")] = 30.0,
    onednn: Annotated[
        bool,
        typer.Option(
            "--onednn", help="Faster large batches and bfloat16 encoders, for memory that grows with traffic."
        ),
    ] = False,
    log_sampling: Annotated[float, typer.Option(help="Share of requests to log.")] = 0.01,
    prefer_tensor_content: Annotated[
        bool, typer.Option("--prefer-tensor-content", help="Answer with numbers as raw bytes.")
    ] = False,
) -> None:
    """Serve models over gRPC and REST with TensorFlow Serving's API, and pick up new versions."""
    import asyncio
    import os

    # Read when the C library is loaded, which happens after this.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = str(int(onednn))
    with needs_extra("Serving", "serving"):
        from serving.server.batching_options import BatchingOptions, read_batching_options
        from serving.server.limits import Limits
        from serving.server.model_server import ModelServer
        from serving.server.native_log import structured_standard_error
        from serving.server.server_options import ServerOptions

    if batching_parameters_file is not None:
        batching = read_batching_options(batching_parameters_file)
    else:
        batching = BatchingOptions(max_batch_size, batch_timeout_micros, max_enqueued_batches)
    options = ServerOptions(
        models=_models(model_base, model_name, model_config_file),
        model_config_file=model_config_file,
        host=host,
        port=port,
        rest_port=None if rest_port < 0 else rest_port,
        poll_seconds=poll_seconds,
        workers=workers,
        batching=batching,
        limits=Limits(
            max_message_bytes=max_message_mb << 20,
            max_text_bytes=max_query_bytes,
            max_rows=max_queries,
            max_k_prime=max_k_prime,
            max_concurrent=max_concurrent,
        ),
        rest_timeout_seconds=rest_timeout_ms / 1000,
        drain_seconds=drain_seconds,
        log_sampling=log_sampling,
        tls=_tls(tls_cert, tls_key, tls_client_ca),
        token_file=token_file,
        prefer_tensor_content=prefer_tensor_content,
        playground=playground,
    )
    with structured_standard_error() as log:
        asyncio.run(ModelServer(options, log).run(_announce))


def _models(base: Path | None, name: str, file: Path | None) -> tuple[ModelConfig, ...]:
    from serving.server.model_config import ModelConfig, read_model_configs

    if (base is None) == (file is None):
        received = "neither" if base is None else "both"
        raise InputError(
            f"Say what to serve, with either --model-base or --model-config-file. Received: {received}."
        )
    if file is not None:
        return tuple(read_model_configs(file))
    assert base is not None
    if not base.is_dir():
        raise InputError(f"--model-base must be a directory that exists. Received: {base}.")
    return (ModelConfig(name, base.resolve()),)


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    from serving.server.tls_files import TlsFiles

    if certificate is not None and key is not None:
        return TlsFiles(certificate, key, client_ca)
    if certificate is not None or key is not None or client_ca is not None:
        raise InputError("TLS needs both --tls-cert and --tls-key. Received: only some of them.")
    return None


def _announce(server: ModelServer) -> None:
    host = server.options.host
    scheme = "https" if server.options.tls else "http"
    rest = f", REST {scheme}://{host}:{server.rest_port}" if server.rest_port is not None else ""
    page = " (playground at /)" if server.options.playground else ""
    typer.echo(f"serving {server.describe_models()}: gRPC {host}:{server.port}{rest}{page}")
