"""What a server answers, as plain Python values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Match:
    """What one query token found in a document.

    Attributes:
        query_piece: The query's token.
        document_piece: The document's, "" if nothing of the document was retrieved.
        score: Their similarity, or what was imputed.
        retrieved: Whether it was found rather than imputed.
        start: First character of the document's token in `"{title} {text}"`, -1 if unknown.
        limit: The one after its last.
    """

    query_piece: str
    document_piece: str
    score: float
    retrieved: bool
    start: int
    limit: int


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that was found; what the signature does not tell is empty."""

    id: str
    score: float
    title: str = ""
    language: str = ""
    text: str = ""
    matches: tuple[Match, ...] = ()


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The documents found for a query, best first, and the version of each server that answered."""

    query: str
    documents: tuple[Document, ...]
    versions: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An output: its shape, and its values in row-major order (strings are `bytes`)."""

    shape: tuple[int, ...]
    values: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """All outputs of a signature, and the version that gave them."""

    outputs: dict[str, Tensor]
    version: int
