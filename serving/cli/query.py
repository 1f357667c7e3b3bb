"""`xtr-tf query`: queries to a running server, and how their results are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli import options as cli_options
from xtr_tf.errors import InputError, needs_extra

if TYPE_CHECKING:
    from grpc import ChannelCredentials
    from rich.console import Console

    from serving.client import ClientError, Hit, Match, SearchResult


def query(
    text: Annotated[list[str], typer.Argument(help="Text to search for; each argument is a query.")],
    server: Annotated[str, typer.Option(help="host:port of the server's gRPC API.")] = "127.0.0.1:8500",
    model: Annotated[str, typer.Option(help="Name of the model.")] = "default",
    version: Annotated[int | None, typer.Option(help="Version to query; default: the latest.")] = None,
    label: Annotated[str | None, typer.Option(help="Label of the version to query.")] = None,
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
    with_text: Annotated[bool, typer.Option("--text", help="Show the texts of documents.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per query.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 10.0,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, trusting the system's authorities.")] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="Encrypt, trusting these authorities (PEM).")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The client's certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The client's private key (PEM).")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with a bearer token.")] = None,
) -> None:
    """Query a running server, xtr-tf's or TensorFlow Serving, and show the documents found."""
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
        credentials=client_credentials(tls, tls_ca, tls_key, tls_cert),
        token=read_token(token_file) if token_file else None,
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


def client_credentials(
    tls: bool, ca: Path | None, key: Path | None, certificate: Path | None
) -> ChannelCredentials | None:
    """Returns TLS credentials for a client.

    Args:
        tls: Whether to encrypt even if no file is given.
        ca: Certificate authorities to trust (PEM). Defaults to the system's.
        key: Private key of the client (PEM).
        certificate: Certificate of the client (PEM).

    Returns:
        The credentials, or None for plain text.
    """
    from serving.client import tls_credentials

    if not (tls or ca or key or certificate):
        return None
    return tls_credentials(*(file.read_bytes() if file else None for file in (ca, key, certificate)))


def read_token(file: Path) -> str:
    """Reads the first bearer token of a file.

    Args:
        file: A text file.

    Returns:
        The token.

    Raises:
        InputError: The file is empty.
    """
    words = file.read_text().split()
    if not words:
        raise InputError(f"The file with the bearer token is empty. Received: {str(file)!r}.")
    return words[0]


def _sentence(error: ClientError, server: str) -> str:
    """Returns the server's message, with `Received: …` added if the message has none."""
    answer = f"{error.code.name} from {server}"
    if "Received: " in error.message:
        return f"{error.message.rstrip('.')} ({answer})."
    return f"{error.message.rstrip('.')}. Received: {answer}."


def _print_json(results: list[SearchResult], shown: tuple[str, ...]) -> None:
    import dataclasses

    for result in results:
        fields = dataclasses.asdict(result)
        for document in fields["documents"]:
            # Leave out what was not requested instead of showing it empty.
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
    """Returns a table with a row per query token: its match, or in grey the imputed similarity."""
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
    """Returns a SentencePiece for display, without its word marker and with names for the end and spaces."""
    return "(end)" if piece == "</s>" else piece.replace("▁", " ").strip() or "(space)"
