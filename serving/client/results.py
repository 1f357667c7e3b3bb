"""Answers of a server as plain Python values, and how to read them from its messages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .messages import MESSAGES, tensor_values

_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


class ClientError(Exception):
    """The server refused a call, failed or could not be reached. Calls raise no other exception.

    Attributes:
        code: Status code of gRPC.
        message: One sentence about what went wrong.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


@dataclasses.dataclass(frozen=True)
class Match:
    """What one query token matched in a document.

    Attributes:
        query_piece: The query token.
        document_piece: The document token, "" if none of the document was retrieved.
        score: Similarity of the two tokens, or the imputed similarity.
        retrieved: Whether the similarity was retrieved rather than imputed.
        start: Position of the document token's first character in `"{title} {text}"`, -1 if unknown.
        limit: Position after its last character.
        weight: Weight of the query token in the score.
    """

    query_piece: str
    document_piece: str
    score: float
    retrieved: bool
    start: int
    limit: int
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document that was found. What the signature does not return is empty.

    Attributes:
        id: Id of the document.
        score: Its score.
        title: Its title.
        text: Its text.
        language: Its language.
        fields: Its fields as JSON.
        matches: One match per query token, from `explain`.
    """

    id: str
    score: float
    title: str = ""
    text: str = ""
    language: str = ""
    fields: str = ""
    matches: tuple[Match, ...] = ()


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The answer to a query.

    Attributes:
        query: The query.
        documents: The documents found, best first.
        versions: Model version of each server that answered.
    """

    query: str
    documents: tuple[Hit, ...]
    versions: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An output of a signature.

    Attributes:
        shape: Its shape.
        values: Its values in row-major order. Strings are `bytes`.
    """

    shape: tuple[int, ...]
    values: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The answer of a signature.

    Attributes:
        outputs: Outputs by name.
        version: Model version that answered.
    """

    outputs: dict[str, Tensor]
    version: int


def read_prediction(raw: bytes) -> Prediction:
    """Reads a serialised `PredictResponse`.

    Args:
        raw: The serialised message.

    Returns:
        The outputs and the version.

    Raises:
        ClientError: INTERNAL, if `raw` is not such a message or has an unknown data type.
    """
    response = _parse("PredictResponse", raw)
    try:
        outputs = {name: Tensor(*tensor_values(tensor)) for name, tensor in response.outputs.items()}
    except ValueError as error:
        raise ClientError(grpc.StatusCode.INTERNAL, f"The answer cannot be read: {error}.") from None
    return Prediction(outputs, response.model_spec.version.value)


def read_status(raw: bytes) -> dict[int, str]:
    """Reads the state of each version from a serialised `GetModelStatusResponse`.

    Args:
        raw: The serialised message.

    Returns:
        States by version.

    Raises:
        ClientError: INTERNAL, if `raw` is not such a message.
    """
    response = _parse("GetModelStatusResponse", raw)
    return {status.version: _STATES.get(status.state, "UNKNOWN") for status in response.model_version_status}


def read_results(queries: Sequence[str], prediction: Prediction) -> list[SearchResult]:
    """Splits an answer of `serving_default`, `search` or `explain` into one result per query.

    Args:
        queries: The queries of the call, in order.
        prediction: The answer.

    Returns:
        One result per query, without the empty places if fewer documents were found than requested.

    Raises:
        ClientError: The signature does not return documents.
    """
    outputs = prediction.outputs
    if "document_ids" not in outputs or "scores" not in outputs:
        raise ClientError(grpc.StatusCode.FAILED_PRECONDITION, "The signature does not return documents.")
    columns = outputs["scores"].shape[1]
    results = []
    for row, query in enumerate(queries):
        positions = range(row * columns, (row + 1) * columns)
        # If fewer documents were found than requested, the remaining places score minus infinity.
        found = [position for position in positions if math.isfinite(outputs["scores"].values[position])]
        hits = tuple(_hit(outputs, row, position) for position in found)
        results.append(SearchResult(query, hits, (prediction.version,)))
    return results


def _hit(outputs: dict[str, Tensor], row: int, position: int) -> Hit:
    return Hit(
        id=_text(outputs, "document_ids", position),
        score=outputs["scores"].values[position],
        title=_text(outputs, "titles", position),
        text=_text(outputs, "texts", position),
        language=_text(outputs, "languages", position),
        fields=_text(outputs, "fields", position),
        matches=_matches(outputs, row, position) if "query_pieces" in outputs else (),
    )


def _matches(outputs: dict[str, Tensor], row: int, position: int) -> tuple[Match, ...]:
    length = outputs["query_pieces"].shape[1]
    matches = []
    for token in range(length):
        piece = _text(outputs, "query_pieces", row * length + token)
        at = position * length + token
        if piece:
            matches.append(
                Match(
                    query_piece=piece,
                    document_piece=_text(outputs, "document_pieces", at),
                    score=outputs["token_scores"].values[at],
                    retrieved=bool(outputs["retrieved"].values[at]),
                    start=outputs["starts"].values[at],
                    limit=outputs["limits"].values[at],
                    weight=outputs["weights"].values[row * length + token],
                )
            )
    return tuple(matches)


def _text(outputs: dict[str, Tensor], name: str, position: int) -> str:
    if name not in outputs:
        return ""
    text: bytes = outputs[name].values[position]
    return text.decode("utf-8", "replace")


def _parse(name: str, raw: bytes) -> Any:
    try:
        return MESSAGES[name].FromString(raw)
    except DecodeError:
        raise ClientError(grpc.StatusCode.INTERNAL, f"The answer is not a {name}.") from None
