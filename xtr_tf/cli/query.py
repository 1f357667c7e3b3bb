"""`xtr-tf query`: ask a server, and see why it answered so.

Imports neither TensorFlow nor NumPy: the answer is there before one has put the hands down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.extras import needs_extra
from xtr_tf.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from serving.client import Document, Match, SearchResult


def query(
    text: Annotated[list[str], typer.Argument(help="What to search for; each argument is a query.")],
    server: Annotated[str, typer.Option(help="host:port of the server's gRPC.")] = "127.0.0.1:8500",
    model: Annotated[str, typer.Option(help="The model's name.")] = "default",
    version: Annotated[int | None, typer.Option(help="A version, instead of the latest.")] = None,
    label: Annotated[str | None, typer.Option(help="A version by its label.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Documents to show.")] = None,
    k_prime: Annotated[int | None, typer.Option(help="Tokens that each query token retrieves.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="Only documents in this language.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show which token found which.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a query.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 10.0,
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
        raise InputError("Choose a version or a label, not both. Received: both.")
    client = Client(
        server,
        model,
        version=version,
        label=label,
        timeout=timeout,
        credentials=_credentials(tls, tls_ca, tls_key, tls_cert),
        token=_read_token(token_file) if token_file else None,
    )
    options = SearchOptions(k_prime=k_prime, top_k=top_k, languages=language)
    with client:
        try:
            results = client.search_batch(text, options, "explain" if explain else "search")
        except ClientError as error:
            raise InputError(
                f"{error.message.rstrip('.')}. Received: {error.code.name} from {server}."
            ) from None
    if as_json:
        _print_json(results)
    else:
        _print_results(results)


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


def _print_json(results: list[SearchResult]) -> None:
    import dataclasses

    for result in results:
        typer.echo(json.dumps(dataclasses.asdict(result), ensure_ascii=False))


def _print_results(results: list[SearchResult]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for number, result in enumerate(results):
        if number:
            console.print()
        if len(results) > 1:
            console.print(result.query, style="bold", markup=False)
        if not result.documents:
            console.print("nothing found", style="dim")
        for rank, document in enumerate(result.documents, start=1):
            _print_document(console, rank, document)


def _print_document(console: Console, rank: int, document: Document) -> None:
    from rich.text import Text

    line = Text(f"{rank:>2} ")
    line.append(f"{document.score:.4f} ", style="cyan")
    line.append(document.title or document.id, style="bold")
    if document.title:
        line.append(f"  {document.id}", style="dim")
    if document.language:
        line.append(f" {document.language}", style="green")
    console.print(line)
    if document.matches:
        console.print(_alignment(document.matches), soft_wrap=False)


def _alignment(matches: tuple[Match, ...]) -> object:
    """A row a query token: what it found there, or in grey what was imputed instead."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=4)
    table.add_column(justify="right")
    table.add_column()
    table.add_column(justify="right")
    for match in matches:
        found = _word(match.document_piece) if match.retrieved else "imputed"
        words = (Text(_word(match.query_piece)), Text(found))
        table.add_row("", *words, f"{match.score:.3f}", style=_style(match))
    return table


def _style(match: Match) -> str:
    if not match.retrieved:
        return "bright_black"
    return "bold green" if match.score >= 0.8 else "green" if match.score >= 0.5 else "yellow"


def _word(piece: str) -> str:
    """A SentencePiece with its mark of a new word as a space, and the end of the text named."""
    return "(end)" if piece == "</s>" else piece.replace("▁", " ").strip() or "(space)"
