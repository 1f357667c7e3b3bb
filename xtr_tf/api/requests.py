"""Converts Python keywords to the inputs of a retriever's signature, and its outputs to results.

The parameters are those of `xtr_tf.retriever.request.SearchRequest`. The model checks their values.
Knows arrays by their names in the signature, but not who computes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from xtr_tf.api.results import ExplainedHit, Explanation, Hit, Hits, TokenMatch
from xtr_tf.errors import InputError
from xtr_tf.runtime.signature import Session, Signature

Answer = Mapping[str, np.ndarray]
_QUERIES_AT_ONCE = 32


class ExplanationParameters(TypedDict, total=False):
    """The parameters of `explain`, for type checkers. `Index.search` describes them."""

    top_k: int | None
    k_prime: int | None
    leaves: int | None
    imputation: str | None
    constant: float | None
    languages: str | Sequence[str] | None
    token_weights: str | None
    filter: str | None
    min_score: float | None
    alpha: float | None
    fusion: str | None


class Parameters(ExplanationParameters, total=False):
    """The parameters of `search`, for type checkers."""

    rescore: int | None


def ask(
    session: Session, signature: str, queries: Sequence[str], request: Mapping[str, Any]
) -> Iterator[tuple[str, Answer]]:
    """Runs a signature, and yields each query with its own part of the answer.

    Args:
        session: The session that runs the model.
        signature: `search` or `explain`.
        queries: The queries.
        request: Parameters by name; None for the model's default.

    Yields:
        A query, and its output arrays by name, without the dimension of queries.

    Raises:
        InputError: A query is not a string or has no text, or a parameter cannot be used.
    """
    check_queries(queries)
    inputs = _inputs(session.signatures[signature], request)
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        group = list(queries[start : start + _QUERIES_AT_ONCE])
        answer = session.run(signature, {"query": group, **inputs})
        for row, query in enumerate(group):
            yield query, {name: values[row] for name, values in answer.items()}


def check_queries(queries: Sequence[str]) -> None:
    """Raises `InputError` unless all queries are strings with text."""
    for position, query in enumerate(queries):
        if not isinstance(query, str):
            raise InputError(
                "A query must be a string or a list of strings. "
                f"Received: {type(query).__name__} at position {position}."
            )
        if not query.strip():
            raise InputError(f"A query must contain text. Received: {query!r} at position {position}.")


def _inputs(signature: Signature, request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given parameters in the shapes that the model expects."""
    given = {name: value for name, value in request.items() if value is not None}
    unknown = sorted(given.keys() - signature.inputs.keys())
    if unknown:
        known = sorted(signature.inputs.keys() & request.keys())
        raise InputError(
            f"This model has the parameters {', '.join(known)}; export it again to get newer ones. "
            f"Received: {', '.join(unknown)}."
        )
    if not isinstance(given.get("languages", ""), str):
        given["languages"] = ",".join(given["languages"])
    # Parameters have one value per query; a single value is used for all.
    return {name: [value] for name, value in given.items()}


def to_hits(query: str, answer: Answer) -> Hits:
    """Converts the answer to a query to `Hits`.

    Args:
        query: The query.
        answer: Output arrays of the signature `search` for this query.

    Returns:
        The documents found, best first.
    """
    return Hits(query, tuple(_hit(answer, place) for place in _found(answer)))


def to_explanation(query: str, answer: Answer) -> Explanation:
    """Converts the answer to a query to an `Explanation`.

    Args:
        query: The query.
        answer: Output arrays of the signature `explain` for this query.

    Returns:
        The documents found, each with its token matches.
    """
    return Explanation(
        query,
        tuple(ExplainedHit(_hit(answer, place), _matches(answer, place)) for place in _found(answer)),
    )


def _found(answer: Answer) -> list[int]:
    return [place for place, identifier in enumerate(answer["document_ids"]) if identifier]


def _hit(answer: Answer, place: int) -> Hit:
    return Hit(
        id=_decode(answer["document_ids"][place]),
        score=float(answer["scores"][place]),
        title=_decode(answer["titles"][place]),
        text=_decode(answer["texts"][place]) if "texts" in answer else "",
        fields=json.loads(answer["fields"][place]) if "fields" in answer else {},
        language=_decode(answer["languages"][place]),
        xtr_score=float(answer["xtr_scores"][place]) if "xtr_scores" in answer else None,
        lexical_score=float(answer["lexical_scores"][place]) if "lexical_scores" in answer else None,
    )


def _matches(answer: Answer, place: int) -> tuple[TokenMatch, ...]:
    matches = []
    for token, piece in enumerate(answer["query_pieces"]):
        if not piece:
            continue
        retrieved = bool(answer["retrieved"][place, token])
        start, limit = int(answer["starts"][place, token]), int(answer["limits"][place, token])
        matches.append(
            TokenMatch(
                token=_decode(piece),
                score=float(answer["token_scores"][place, token]),
                retrieved=retrieved,
                match=_decode(answer["document_pieces"][place, token]) if retrieved else "",
                span=(start, limit) if retrieved and start >= 0 else None,
            )
        )
    return tuple(matches)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
