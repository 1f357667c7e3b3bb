"""From a server's messages to results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .client_error import ClientError
from .messages import MESSAGES, tensor_values
from .results import Document, Match, Prediction, SearchResult, Tensor

_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


def read_prediction(raw: bytes) -> Prediction:
    """Reads a `PredictResponse`."""
    response = _parse("PredictResponse", raw)
    try:
        outputs = {name: Tensor(*tensor_values(tensor)) for name, tensor in response.outputs.items()}
    except ValueError as error:
        raise ClientError(grpc.StatusCode.INTERNAL, f"The answer cannot be read: {error}.") from None
    return Prediction(outputs, response.model_spec.version.value)


def read_status(raw: bytes) -> dict[int, str]:
    """Reads a `GetModelStatusResponse`."""
    response = _parse("GetModelStatusResponse", raw)
    return {status.version: _STATES.get(status.state, "UNKNOWN") for status in response.model_version_status}


def read_results(queries: Sequence[str], prediction: Prediction) -> list[SearchResult]:
    """Takes an answer of `serving_default`, `search` or `explain` apart, one result a query."""
    outputs = prediction.outputs
    if "document_ids" not in outputs or "scores" not in outputs:
        raise ClientError(grpc.StatusCode.FAILED_PRECONDITION, "The signature does not return documents.")
    columns = outputs["scores"].shape[1]
    results = []
    for row, query in enumerate(queries):
        places = range(row * columns, (row + 1) * columns)
        # Where fewer documents were found than asked for, the rest scores minus infinity.
        found = [place for place in places if math.isfinite(outputs["scores"].values[place])]
        documents = tuple(_document(outputs, row, place) for place in found)
        results.append(SearchResult(query, documents, (prediction.version,)))
    return results


def _document(outputs: dict[str, Tensor], row: int, place: int) -> Document:
    return Document(
        id=_text(outputs, "document_ids", place),
        score=outputs["scores"].values[place],
        title=_text(outputs, "titles", place),
        language=_text(outputs, "languages", place),
        text=_text(outputs, "texts", place),
        matches=_matches(outputs, row, place) if "query_pieces" in outputs else (),
    )


def _matches(outputs: dict[str, Tensor], row: int, place: int) -> tuple[Match, ...]:
    length = outputs["query_pieces"].shape[1]
    matches = []
    for token in range(length):
        piece = _text(outputs, "query_pieces", row * length + token)
        at = place * length + token
        if piece:
            matches.append(
                Match(
                    query_piece=piece,
                    document_piece=_text(outputs, "document_pieces", at),
                    score=outputs["token_scores"].values[at],
                    retrieved=bool(outputs["retrieved"].values[at]),
                    start=outputs["starts"].values[at],
                    limit=outputs["limits"].values[at],
                )
            )
    return tuple(matches)


def _text(outputs: dict[str, Tensor], name: str, place: int) -> str:
    if name not in outputs:
        return ""
    text: bytes = outputs[name].values[place]
    return text.decode("utf-8", "replace")


def _parse(name: str, raw: bytes) -> Any:
    try:
        return MESSAGES[name].FromString(raw)
    except DecodeError:
        raise ClientError(grpc.StatusCode.INTERNAL, f"The answer is not a {name}.") from None
