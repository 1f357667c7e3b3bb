"""`xtr-tf serve` and `xtr-tf query`: a server with TensorFlow Serving's API, and a client of it.

Importing this file must import neither gRPC nor TensorFlow: a command imports what it needs when it runs.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli import options as cli_options
from xtr_tf.errors import InputError, needs_extra

if TYPE_CHECKING:
    from rich.console import Console

    from serving.client import ClientError, Hit, Match, SearchResult
    from serving.server.collection.manager import CollectionOptions
    from serving.server.model_server import ModelServer
    from serving.server.models.config import ModelConfig
    from serving.server.wire.credentials import TlsFiles

_SWITCH_SECONDS = 0.0005


def register(app: typer.Typer) -> None:
    """Adds the commands of this package to `xtr-tf`."""
    app.command("serve")(serve)
    app.command("query")(query)


_model = partial(typer.Option, rich_help_panel="Models")
_collection = partial(typer.Option, rich_help_panel="Collection")
_network = partial(typer.Option, rich_help_panel="Network")
_batch = partial(typer.Option, rich_help_panel="Batches")
_limit = partial(typer.Option, rich_help_panel="Limits")


def serve(
    model_base: Annotated[
        Path | None,
        _model(help="Directory with one subdirectory per version, named by its number."),
    ] = None,
    model_name: Annotated[str, _model(help="What requests call the model.")] = "default",
    model_config_file: Annotated[
        Path | None,
        _model(help="Several models, policies and labels: ModelServerConfig as text."),
    ] = None,
    collection: Annotated[
        Path | None,
        _collection(help="Serve partitions on other servers as one model: its collection.json."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        _collection(help="Servers of a partition, 0=host:port,host:port[/model]; once for each partition."),
    ] = None,
    partial: Annotated[
        str,
        _collection(help="Without a partition: refuse, or allow answers that say what is missing."),
    ] = "refuse",
    partition_timeout_ms: Annotated[
        int, _collection(help="Longest time for a request, whatever its own deadline.")
    ] = 10_000,
    partition_tls_ca: Annotated[
        Path | None, _collection(help="Encrypt to partitions, trusting these authorities (PEM).")
    ] = None,
    partition_token_file: Annotated[
        Path | None, _collection(help="File with a bearer token for partitions.")
    ] = None,
    keep_versions: Annotated[
        int, _model(min=1, help="How many of the newest versions of --model-base answer.")
    ] = 1,
    require_marker: Annotated[
        bool,
        _model("--require-marker", help="Ignore versions without _SUCCESS, which is written last."),
    ] = False,
    poll_seconds: Annotated[float, _model(help="How often to look for new versions; 0 for never.")] = 1.0,
    workers: Annotated[int, _model(help="Model calls at the same time; 0 for one per core.")] = 0,
    host: Annotated[str, _network(help="Address to bind; 0.0.0.0 to accept other hosts.")] = "127.0.0.1",
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
    admin_token_file: Annotated[
        Path | None,
        _network(help="Bearer tokens for reloading the configuration by a request; without it only locally."),
    ] = None,
    batching_parameters_file: Annotated[
        Path | None,
        _batch(help="BatchingParameters as text; replaces the next three."),
    ] = None,
    max_batch_size: Annotated[int, _batch(help="Queries of one model call; 1 for no batching.")] = 32,
    batch_timeout_micros: Annotated[int, _batch(help="How long a query waits for others to join it.")] = 0,
    max_enqueued_batches: Annotated[
        int, _batch(help="Batches that may wait before queries are refused.")
    ] = 8,
    max_concurrent: Annotated[int, _limit(help="Requests in progress at once.")] = 256,
    max_message_mb: Annotated[int, _limit(help="Size of a request.")] = 8,
    max_total_mb: Annotated[int, _limit(help="Size of all requests in progress together.")] = 256,
    max_queries: Annotated[int, _limit(help="Queries of one request.")] = 256,
    max_query_bytes: Annotated[int, _limit(help="Length of a query.")] = 8192,
    max_document_bytes: Annotated[
        int, _limit(help="Length of a document to score or encode; tokens beyond the model's are cut.")
    ] = 65_536,
    max_k_prime: Annotated[int, _limit(help="k' times the queries of one request.")] = 200_000,
    rest_timeout_ms: Annotated[int, _limit(help="Deadline of REST requests.")] = 30_000,
    drain_seconds: Annotated[
        float, _limit(help="Time that requests in progress get after SIGTERM, or when a version is unloaded.")
    ] = 30.0,
    onednn: Annotated[
        bool,
        typer.Option(
            "--onednn", help="Speed up large batches and bfloat16 encoders; memory then grows with traffic."
        ),
    ] = False,
    log_sampling: Annotated[float, typer.Option(help="Share of requests to log.")] = 0.01,
    strict_json: Annotated[
        bool, typer.Option("--strict-json", help="Answer null over REST for numbers that are not finite.")
    ] = False,
    prefer_tensor_content: Annotated[
        bool, typer.Option("--prefer-tensor-content", help="Answer with numbers as raw bytes.")
    ] = False,
) -> None:
    """Serve models over gRPC and REST with TensorFlow Serving's API, and pick up new versions."""
    import asyncio
    import os
    import sys

    # Read when the C library is loaded, which happens after this.
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
        collection=_collection_options(
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
    # A model's answer must not wait milliseconds for the event loop to give up the interpreter.
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
            "Say what to serve, with either --model-base or --model-config-file. "
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


def _collection_options(
    file: Path | None,
    partitions: list[str],
    name: str,
    partial: str,
    timeout_seconds: float,
    authorities: Path | None,
    token_file: Path | None,
    models: Path | None,
) -> CollectionOptions | None:
    from serving.server.collection.addresses import read_addresses
    from serving.server.collection.manager import CollectionOptions
    from serving.server.collection.request import PARTIAL
    from xtr_tf.retriever.collection_file import read_collection

    if file is None:
        if partitions:
            raise InputError(f"--partition needs --collection. Received: --partition {partitions[0]}.")
        return None
    if models is not None:
        raise InputError(f"Serve a collection or models, not both. Received: {file} and {models}.")
    if partial not in PARTIAL:
        raise InputError(f"--partial must be one of {', '.join(PARTIAL)}. Received: {partial!r}.")
    if timeout_seconds <= 0:
        raise InputError(f"--partition-timeout-ms must be positive. Received: {timeout_seconds * 1000:g}.")
    addresses = read_addresses(partitions)
    expected = len(read_collection(file).partitions)
    if len(addresses) != expected:
        raise InputError(
            f"The collection has {expected} partitions; give the servers of each with --partition. "
            f"Received: those of {len(addresses)}."
        )
    return CollectionOptions(
        *(file.resolve(), addresses, name, partial, timeout_seconds),
        _credentials(False, authorities, None, None),
        _read_token(token_file) if token_file else None,
    )


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


def query(
    text: Annotated[list[str], typer.Argument(help="What to search for; each argument is a query.")],
    server: Annotated[str, typer.Option(help="host:port of the server's gRPC.")] = "127.0.0.1:8500",
    model: Annotated[str, typer.Option(help="The model's name.")] = "default",
    version: Annotated[int | None, typer.Option(help="A version, instead of the latest.")] = None,
    label: Annotated[str | None, typer.Option(help="A version by its label.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Documents to show.")] = None,
    k_prime: cli_options.AskedKPrime = None,
    language: Annotated[list[str] | None, typer.Option(help="Only documents in this language.")] = None,
    filter_: cli_options.AskedFilter = None,
    min_score: cli_options.AskedMinScore = None,
    rescore: cli_options.AskedRescore = None,
    alpha: cli_options.AskedAlpha = None,
    fusion: cli_options.AskedFusion = None,
    fields: cli_options.ShowFields = False,
    token_weights: cli_options.AskedTokenWeights = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show which tokens matched.")] = False,
    with_text: Annotated[bool, typer.Option("--text", help="Show the documents' texts, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per query.")] = False,
    timeout: Annotated[float, typer.Option(help="How many seconds to wait.")] = 10.0,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, trusting the system's authorities.")] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="Encrypt, trusting these authorities (PEM).")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The client's certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with a bearer token.")] = None,
) -> None:
    """Ask a running server, ours or TensorFlow Serving, and show the documents found."""
    with needs_extra("Querying", "serving"):
        from serving.client import Client, ClientError, SearchOptions

    if version is not None and label is not None:
        raise InputError(
            f"Choose a version or a label, not both. Received: version {version}, label {label!r}."
        )
    client = Client(
        server,
        model,
        version=version,
        label=label,
        timeout=timeout,
        credentials=_credentials(tls, tls_ca, tls_key, tls_cert),
        token=_read_token(token_file) if token_file else None,
    )
    options = SearchOptions(
        k_prime=k_prime,
        top_k=top_k,
        languages=language,
        rescore=rescore if not explain else None,
        token_weights=token_weights,
        filter=filter_,
        min_score=min_score,
        alpha=alpha,
        fusion=fusion,
    )
    with client:
        try:
            contents = (*(("texts",) if with_text else ()), *(("fields",) if fields else ()))
            results = client.search_batch(text, options, "explain" if explain else "search", contents)
        except ClientError as error:
            raise InputError(_sentence(error, server)) from None
    shown = (("text",) if explain or with_text else ()) + (("matches",) if explain else ())
    shown += ("fields",) if fields else ()
    if as_json:
        _print_json(results, shown)
    else:
        _print_results(results, shown)


def _credentials(tls: bool, ca: Path | None, key: Path | None, certificate: Path | None) -> object:
    from serving.client import tls_credentials

    if not (tls or ca or key or certificate):
        return None
    return tls_credentials(*(file.read_bytes() if file else None for file in (ca, key, certificate)))


def _read_token(file: Path) -> str:
    words = file.read_text().split()
    if not words:
        raise InputError(f"The file of the bearer token is empty. Received: {str(file)!r}.")
    return words[0]


def _sentence(error: ClientError, server: str) -> str:
    """What the server answered; whether it said what it received itself, or not."""
    answer = f"{error.code.name} from {server}"
    if "Received: " in error.message:
        return f"{error.message.rstrip('.')} ({answer})."
    return f"{error.message.rstrip('.')}. Received: {answer}."


def _print_json(results: list[SearchResult], shown: tuple[str, ...]) -> None:
    import dataclasses

    for result in results:
        fields = dataclasses.asdict(result)
        for document in fields["documents"]:
            # What was not asked for is left out rather than empty.
            for name in {"text", "matches", "fields"}.difference(shown):
                del document[name]
        typer.echo(json.dumps(fields, ensure_ascii=False))


def _print_results(results: list[SearchResult], shown: tuple[str, ...]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for number, result in enumerate(results):
        if number:
            console.print()
        if len(results) > 1:
            console.print(result.query, style="bold", markup=False)
        if not result.documents:
            console.print("nothing found", style="dim")
        for rank, hit in enumerate(result.documents, start=1):
            _print_hit(console, rank, hit, shown)


def _print_hit(console: Console, rank: int, hit: Hit, shown: tuple[str, ...]) -> None:
    from rich.text import Text

    line = Text(f"{rank:>2} ")
    line.append(f"{hit.score:.4f} ", style="cyan")
    line.append(hit.title or hit.id, style="bold")
    if hit.title:
        line.append(f"  {hit.id}", style="dim")
    if hit.language:
        line.append(f" {hit.language}", style="green")
    console.print(line)
    if "fields" in shown and hit.fields:
        console.print(Text(f"   {hit.fields}", style="dim"))
    if "text" in shown and "matches" not in shown:
        console.print(hit.text, markup=False)
    if "matches" in shown:
        console.print(_alignment(hit.matches), soft_wrap=False)


def _alignment(matches: tuple[Match, ...]) -> object:
    """A row per query token: what it found there, or in grey what was imputed instead."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=4)
    table.add_column(justify="right")
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    for match in matches:
        found = _word(match.document_piece) if match.retrieved else "imputed"
        words = (Text(_word(match.query_piece)), Text(found))
        weight = "" if match.weight == 1 else f"x {match.weight:.1f}"
        table.add_row("", *words, f"{match.score:.3f}", weight, style=_style(match))
    return table


def _style(match: Match) -> str:
    if not match.retrieved:
        return "bright_black"
    return "bold green" if match.score >= 0.8 else "green" if match.score >= 0.5 else "yellow"


def _word(piece: str) -> str:
    """A SentencePiece with its mark of a new word as a space, and the end of the text named."""
    return "(end)" if piece == "</s>" else piece.replace("▁", " ").strip() or "(space)"
