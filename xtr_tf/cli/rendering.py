"""Shows the answers of a retriever in the terminal. Knows the outputs of signatures, and rich."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

Answer = Mapping[str, np.ndarray]

_RETRIEVED = "bold green"
_IMPUTED = "dim"
_SPACE_MARK = "▁"


def ranking_table(answer: Answer, query: int, with_fields: bool = False) -> Table:
    """Returns the documents found for one query of a batch, as a table.

    Args:
        answer: Outputs of `search` or `explain`.
        query: Position of the query in the batch.
        with_fields: Whether to show the fields of documents.

    Returns:
        The table.
    """
    with_fields = with_fields and "fields" in answer
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("document", style="cyan", overflow="fold")
    table.add_column("language")
    table.add_column("title", overflow="fold", ratio=1)
    if with_fields:
        table.add_column("fields", overflow="fold", ratio=1)
    names = ("document_ids", "languages", "titles", *(("fields",) if with_fields else ()))
    for place in found_places(answer, query):
        table.add_row(
            str(place + 1),
            f"{answer['scores'][query, place]:.4f}",
            *(Text(_decode(answer[name][query, place])) for name in names),
        )
    return table


def found_places(answer: Answer, query: int) -> list[int]:
    """Returns the positions in the ranking that have a document.

    Args:
        answer: Outputs of `search` or `explain`.
        query: Position of the query in the batch.

    Returns:
        Positions from 0.
    """
    return [place for place, identifier in enumerate(answer["document_ids"][query]) if identifier]


def document_name(answer: Answer, query: int, place: int) -> Text:
    """Returns a document's id, coloured.

    Args:
        answer: Outputs of `search` or `explain`.
        query: Position of the query in the batch.
        place: Position of the document in the ranking, from 0.

    Returns:
        The id.
    """
    return Text(_decode(answer["document_ids"][query, place]), "cyan")


def query_alignment(answer: Answer, query: int, place: int) -> Columns:
    """Returns the score of each piece of the query in a document: retrieved in bold, imputed dim.

    Args:
        answer: Outputs of `explain`.
        query: Position of the query in the batch.
        place: Position of the document in the ranking, from 0.

    Returns:
        One entry per piece.
    """
    entries = []
    for token, piece in enumerate(answer["query_pieces"][query]):
        if not piece:
            continue
        retrieved = bool(answer["retrieved"][query, place, token])
        match = _readable(answer["document_pieces"][query, place, token]) if retrieved else "imputed"
        entry = Text(_readable(piece), _RETRIEVED if retrieved else _IMPUTED)
        weight = float(answer["weights"][query, token])
        times = "" if weight == 1 else f" x {weight:.1f}"
        entry.append(f" {answer['token_scores'][query, place, token]:.2f}{times} {match}", _IMPUTED)
        entries.append(entry)
    return Columns(entries, padding=(0, 3))


def matched_text(answer: Answer, query: int, place: int) -> Text:
    """Returns title and text of a document, the characters that query tokens matched in bold.

    Args:
        answer: Outputs of `explain`.
        query: Position of the query in the batch.
        place: Position of the document in the ranking, from 0.

    Returns:
        The text; empty for a model exported without texts.
    """
    title, body = (_decode(answer[name][query, place]) for name in ("titles", "texts"))
    if not body:
        return Text()
    text = Text(f"{title} {body}" if title else body)
    starts, limits = (answer[name][query, place] for name in ("starts", "limits"))
    for start, limit in zip(starts.tolist(), limits.tolist(), strict=True):
        if 0 <= start < limit:
            text.stylize(_RETRIEVED, start, limit)
    return text


def to_records(answer: Answer, query: int) -> list[dict[str, Any]]:
    """Returns the documents found for one query as plain values, for JSON.

    Args:
        answer: Outputs of `search` or `explain`.
        query: Position of the query in the batch.

    Returns:
        One record per document, best first.
    """
    return [
        {
            "rank": place + 1,
            "score": float(answer["scores"][query, place]),
            "id": _decode(answer["document_ids"][query, place]),
            "title": _decode(answer["titles"][query, place]),
            "language": _decode(answer["languages"][query, place]),
            **({"fields": json.loads(answer["fields"][query, place])} if "fields" in answer else {}),
        }
        for place in found_places(answer, query)
    ]


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _readable(piece: bytes) -> str:
    """Returns a piece without the mark of a space, unless it has nothing else."""
    text = _decode(piece)
    return text.replace(_SPACE_MARK, "") or text
