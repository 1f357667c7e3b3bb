"""`xtr-tf serve`: its options, and the server that they describe."""

from __future__ import annotations

from functools import partial as _partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import collection as collections
from xtr_tf.errors import InputError, needs_extra

if TYPE_CHECKING:
    from serving.server.model_server import ModelServer
    from serving.server.models.config import ModelConfig
    from serving.server.wire.credentials import TlsFiles

_SWITCH_SECONDS = 0.0005

_model = _partial(typer.Option, rich_help_panel="Models")
_network = _partial(typer.Option, rich_help_panel="Network")
_batch = _partial(typer.Option, rich_help_panel="Batches")
_limit = _partial(typer.Option, rich_help_panel="Limits")


def serve(
    model_base: Annotated[
        Path | None,
        _model(help="Directory with one subdirectory per version, named by number."),
    ] = None,
    model_name: Annotated[str, _model(help="Name of the model in requests.")] = "default",
    model_config_file: Annotated[
        Path | None,
        _model(help="ModelServerConfig in text format, for several models, policies and labels."),
    ] = None,
    collection: collections.File = None,
    partition: collections.Partition = None,
    partial: collections.Partial = "refuse",
    partition_timeout_ms: collections.TimeoutMs = 10_000,
    partition_tls_ca: collections.TlsCa = None,
    partition_token_file: collections.TokenFile = None,
    keep_versions: Annotated[
        int, _model(min=1, help="How many of the newest versions of --model-base to serve.")
    ] = 1,
    require_marker: Annotated[
        bool,
        _model("--require-marker", help="Ignore versions without the file _SUCCESS, which is written last."),
    ] = False,
    poll_seconds: Annotated[float, _model(help="Seconds between checks for new versions; 0: never.")] = 1.0,
    workers: Annotated[int, _model(help="Concurrent model calls; 0: one per core.")] = 0,
    host: Annotated[str, _network(help="Address to bind; 0.0.0.0 accepts other hosts.")] = "127.0.0.1",
    port: Annotated[int, _network(help="gRPC port; 0: any free one.")] = 8500,
    rest_port: Annotated[int, _network(help="REST port; 0: any free one, -1: none.")] = 8501,
    playground: Annotated[bool, _network("--playground", help="Serve a page for trying queries.")] = False,
    tls_cert: Annotated[Path | None, _network(help="The server's certificate with its chain (PEM).")] = None,
    tls_key: Annotated[Path | None, _network(help="The server's private key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None,
        _network(help="Require client certificates from these authorities (PEM)."),
    ] = None,
    token_file: Annotated[
        Path | None,
        _network(help="Require one of the bearer tokens in this file."),
    ] = None,
    admin_token_file: Annotated[
        Path | None,
        _network(help="Bearer tokens that may reload the configuration; default: only local callers."),
    ] = None,
    batching_parameters_file: Annotated[
        Path | None,
        _batch(help="BatchingParameters in text format; replaces the next three options."),
    ] = None,
    max_batch_size: Annotated[int, _batch(help="Queries per model call; 1: no batching.")] = 32,
    batch_timeout_micros: Annotated[int, _batch(help="How long a query waits for others.")] = 0,
    max_enqueued_batches: Annotated[
        int, _batch(help="Batches that may wait before queries are refused.")
    ] = 8,
    max_concurrent: Annotated[int, _limit(help="Requests in progress at once.")] = 256,
    max_message_mb: Annotated[int, _limit(help="Largest request.")] = 8,
    max_total_mb: Annotated[int, _limit(help="Total size of requests in progress.")] = 256,
    max_queries: Annotated[int, _limit(help="Queries per request.")] = 256,
    max_query_bytes: Annotated[int, _limit(help="Length of a query in bytes.")] = 8192,
    max_document_bytes: Annotated[
        int, _limit(help="Length in bytes of a document to score or encode; the model may truncate it.")
    ] = 65_536,
    max_k_prime: Annotated[int, _limit(help="k' times the number of queries in a request.")] = 200_000,
    rest_timeout_ms: Annotated[int, _limit(help="Timeout of REST requests.")] = 30_000,
    drain_seconds: Annotated[
        float, _limit(help="Time to finish requests after SIGTERM, or before a version is unloaded.")
    ] = 30.0,
    onednn: Annotated[
        bool,
        typer.Option(
            "--onednn", help="Faster large batches and bfloat16 encoders, but memory grows with traffic."
        ),
    ] = False,
    log_sampling: Annotated[float, typer.Option(help="Fraction of requests to log.")] = 0.01,
    strict_json: Annotated[
        bool, typer.Option("--strict-json", help="Return null for NaN and infinity over REST.")
    ] = False,
    prefer_tensor_content: Annotated[
        bool, typer.Option("--prefer-tensor-content", help="Return numbers as raw bytes.")
    ] = False,
) -> None:
    """Serve models over gRPC and REST with TensorFlow Serving's API, and load new versions as they appear."""
    import asyncio
    import os
    import sys

    # TensorFlow reads this when its C library is loaded, below.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = str(int(onednn))
    with needs_extra("Serving", "serving"):
        from serving.server.model_server import ModelServer, ServerOptions
        from serving.server.native_log import structured_standard_error
        from serving.server.requests.batching import BatchingOptions, read_batching_options
        from serving.server.requests.limits import Limits

    if batching_parameters_file is not None:
        batching = read_batching_options(batching_parameters_file)
    else:
        batching = BatchingOptions(max_batch_size, batch_timeout_micros, max_enqueued_batches)
    options = ServerOptions(
        models=() if collection else _models(model_base, model_name, model_config_file, keep_versions),
        collection=collections.collection_options(
            *(collection, partition or [], model_name, partial, partition_timeout_ms / 1000),
            *(partition_tls_ca, partition_token_file, model_base or model_config_file),
        ),
        model_config_file=model_config_file,
        host=host,
        port=port,
        rest_port=None if rest_port < 0 else rest_port,
        require_marker=require_marker,
        poll_seconds=poll_seconds,
        workers=workers,
        batching=batching,
        limits=Limits(
            max_message_bytes=max_message_mb << 20,
            max_text_bytes=max_query_bytes,
            max_document_bytes=max_document_bytes,
            max_rows=max_queries,
            max_k_prime=max_k_prime,
            max_concurrent=max_concurrent,
            max_total_bytes=max_total_mb << 20,
        ),
        rest_timeout_seconds=rest_timeout_ms / 1000,
        drain_seconds=drain_seconds,
        log_sampling=log_sampling,
        tls=_tls(tls_cert, tls_key, tls_client_ca),
        token_file=token_file,
        admin_token_file=admin_token_file,
        strict_json=strict_json,
        prefer_tensor_content=prefer_tensor_content,
        playground=playground,
    )
    # By default a thread may keep the interpreter for 5 ms, which would delay answers.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with structured_standard_error() as log:
        asyncio.run(ModelServer(options, log).run(_announce))


def _models(base: Path | None, name: str, file: Path | None, keep: int) -> tuple[ModelConfig, ...]:
    from serving.server.models.config import (
        OBJECT_STORE,
        ModelConfig,
        VersionPolicy,
        is_object_store,
        read_model_configs,
    )

    if (base is None) == (file is None):
        raise InputError(
            "Choose what to serve with either --model-base or --model-config-file. "
            f"Received: --model-base {base}, --model-config-file {file}."
        )
    if file is not None:
        return tuple(read_model_configs(file))
    assert base is not None
    if is_object_store(str(base)):
        raise InputError(f"--model-base: {OBJECT_STORE} Received: {base}.")
    if not base.is_dir():
        raise InputError(f"--model-base must be a directory that exists. Received: {base}.")
    return (ModelConfig(name, base.resolve(), VersionPolicy(latest=keep)),)


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    from serving.server.wire.credentials import TlsFiles

    if certificate is not None and key is not None:
        return TlsFiles(certificate, key, client_ca)
    if certificate is not None or key is not None or client_ca is not None:
        raise InputError(f"TLS needs both --tls-cert and --tls-key. Received: {certificate} and {key}.")
    return None


def _announce(server: ModelServer) -> None:
    host = server.options.host
    scheme = "https" if server.options.tls else "http"
    rest = f", REST {scheme}://{host}:{server.rest_port}" if server.rest_port is not None else ""
    page = " (playground at /)" if server.options.playground else ""
    typer.echo(f"serving {server.describe_models()}: gRPC {host}:{server.port}{rest}{page}")
