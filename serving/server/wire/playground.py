"""A page to try queries on, and the one endpoint it asks.

The page is a file without build step or foreign assets. It shows what the `explain` signature says, so
it works with any retriever that xtr-tf exports.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

import numpy as np

from serving.server.predictor import Predictor, Target
from serving.server.requests.call import ModelCall, Signatures, check_arrays
from serving.server.requests.observer import RequestRecord
from serving.server.status import Code, RequestError, invalid_argument
from serving.server.wire.http_server import HttpRequest, HttpResponse
from serving.server.wire.json_tensors import parse_body
from serving.server.wire.rest_api import Route

_SIGNATURE = "explain"
# The page runs its own script and style, and talks only to this server.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# What the page may say: name, type, least and greatest value.
_NUMBERS = {"k_prime": (1, 1_000_000), "top_k": (1, 100)}


class Playground:
    """The page and its endpoint.

    Args:
        predictor: Runs the requests.
        models: Names the models that are served.
    """

    def __init__(self, predictor: Predictor, models: Callable[[], Iterable[str]]) -> None:
        self._predictor = predictor
        self._models = models

    def pages(self) -> dict[str, HttpResponse]:
        """Returns the page by its path."""
        html = resources.files("serving.server.wire").joinpath("playground.html").read_bytes()
        headers = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))
        return {"/": HttpResponse(html, content_type="text/html; charset=utf-8", headers=headers)}

    def routes(self) -> dict[str, Route]:
        """Returns the endpoints by their paths."""
        return {"/playground/search": self.search, "/playground/models": self.list_models}

    async def list_models(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers with the names of the models."""
        return _json({"models": sorted(self._models())})

    async def search(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers `{"model", "query", "k_prime", "top_k", "languages"}` with documents and matches."""
        document = parse_body(request.body)
        inputs = _inputs(document)
        model = document.get("model")
        if not isinstance(model, str):
            raise invalid_argument("`model` must be a name.")

        def decode(session: Signatures, max_elements: int) -> ModelCall:
            signature = session.signatures.get(_SIGNATURE)
            if signature is None or not inputs.keys() <= signature.inputs.keys():
                raise RequestError(
                    Code.FAILED_PRECONDITION, f"Model {model} has no signature `{_SIGNATURE}` of a retriever."
                )
            return ModelCall(signature, check_arrays(signature, inputs), tuple(signature.outputs))

        started = time.perf_counter()
        prediction = await self._predictor.predict(Target(model), decode, record)
        milliseconds = (time.perf_counter() - started) * 1e3
        return _json(
            {
                "version": prediction.version,
                "milliseconds": round(milliseconds, 2),
                "documents": _documents(prediction.outputs),
            }
        )


def _inputs(document: dict[str, Any]) -> dict[str, np.ndarray]:
    query = document.get("query")
    languages = document.get("languages", [])
    if not isinstance(query, str):
        raise invalid_argument("`query` must be a text.")
    if not isinstance(languages, list) or not all(isinstance(language, str) for language in languages):
        raise invalid_argument("`languages` must be a list of language codes.")
    inputs = {"query": _strings([query]), "languages": _strings([",".join(languages)])}
    for name, (least, greatest) in _NUMBERS.items():
        value = document.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or not least <= value <= greatest:
            raise invalid_argument(
                f"`{name}` must be between {least} and {greatest}. Received: {value!r:.40}."
            )
        inputs[name] = np.array([value], np.int32)
    return inputs


def _documents(outputs: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Takes an explanation apart, document by document; what was not found is left out."""
    pieces = [_text(piece) for piece in outputs["query_pieces"][0]]
    documents = []
    for rank, score in enumerate(outputs["scores"][0].tolist()):
        if not np.isfinite(score):
            break
        described = {
            field: _text(outputs[name][0, rank])
            for field, name in (
                ("id", "document_ids"),
                ("title", "titles"),
                ("language", "languages"),
                ("text", "texts"),
            )
        }
        matches = [
            {
                "piece": piece,
                "found": _text(outputs["document_pieces"][0, rank, token]),
                "score": round(float(outputs["token_scores"][0, rank, token]), 4),
                "retrieved": bool(outputs["retrieved"][0, rank, token]),
                "start": int(outputs["starts"][0, rank, token]),
                "limit": int(outputs["limits"][0, rank, token]),
                "weight": round(float(outputs["weights"][0, token]), 2),
            }
            for token, piece in enumerate(pieces)
            if piece
        ]
        documents.append({**described, "score": round(score, 4), "matches": matches})
    return documents


def _strings(values: list[str]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = [value.encode("utf-8", "replace") for value in values]
    return array


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _json(document: Any) -> HttpResponse:
    return HttpResponse(json.dumps(document, ensure_ascii=False).encode())
