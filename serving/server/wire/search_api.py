"""Endpoints for search and reranking with plain JSON, on top of a retriever's signatures.

`openapi.py` describes requests and answers. Limits, tokens, deadlines and the format of errors are those of
the rest of the REST API (`rest_api.py`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from serving.server.predictor import Prediction, Predictor, Target
from serving.server.requests.call import ModelCall, Signatures, check_arrays
from serving.server.requests.limits import Limits
from serving.server.requests.observer import RequestRecord
from serving.server.status import Code, RequestError, invalid_argument, not_found
from serving.server.wire import openapi
from serving.server.wire.http_server import HttpRequest, HttpResponse
from serving.server.wire.json_schema import Schema, check_body, names_in
from serving.server.wire.json_tensors import parse_body
from serving.server.wire.rest_api import Route

# Parts of a document: the name in requests and answers, and the signature's output.
_DESCRIPTIONS = {"title": "titles", "language": "languages", "text": "texts"}
_FIELDS = "fields"
_ALL = "*"
_BOTH_SCORES = {"xtr_score": "xtr_scores", "lexical_score": "lexical_scores"}
_MATCHES = ("query_pieces", "document_pieces", "token_scores", "retrieved", "starts", "limits", "weights")
_NOT_PARAMETERS = ("model", "query", "queries", "fields", "explain", "languages")
_DTYPES = {"integer": np.int32, "number": np.float32}
# As low as the score of a document with text can be, because f_ColBERT is a mean of cosines (with a length
# penalty, nearly so).
_WITHOUT_TEXT = -1.0


class SearchApi:
    """Answers `/v1/search`, `/v1/rerank`, `/v2/rerank` and `/rerank`.

    Args:
        predictor: Runs the requests.
        models: Returns the names of the served models.
        limits: Limits of a request.
        asks_for_tokens: Whether callers need a bearer token, for the OpenAPI document.
    """

    def __init__(
        self,
        predictor: Predictor,
        models: Callable[[], Iterable[str]],
        limits: Limits,
        asks_for_tokens: bool,
    ) -> None:
        self._predictor = predictor
        self._models = models
        self._asks_for_tokens = asks_for_tokens
        self._search = openapi.search_operation(limits)
        self._rerank = openapi.rerank_operation(limits)
        # Newer clients of Cohere use this path for the same request.
        self._rerank_v2 = dataclasses.replace(self._rerank, path="/v2/rerank", name="rerank_v2")
        self._rerank_texts = openapi.rerank_texts_operation(limits)

    def pages(self) -> dict[str, HttpResponse]:
        """Returns the fixed pages, here the OpenAPI document, by path."""
        operations = [self._search, self._rerank, self._rerank_v2, self._rerank_texts]
        return {openapi.PATH: HttpResponse(openapi.render_document(operations, self._asks_for_tokens))}

    def routes(self) -> dict[str, Route]:
        """Returns the endpoints by path."""
        return {
            self._search.path: self.search,
            self._rerank.path: self.rerank,
            self._rerank_v2.path: self.rerank,
            self._rerank_texts.path: self.rerank_texts,
        }

    async def search(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers `/v1/search`.

        Args:
            request: A request with one query or several.
            record: Record of the request for metrics and logs.

        Returns:
            The documents found for each query.

        Raises:
            RequestError: The request is invalid, or the model failed.
        """
        asked = parse_body(request.body)
        check_body(asked, self._search.request)
        if ("query" in asked) == ("queries" in asked):
            raise invalid_argument(
                f"A request needs either `query` or `queries`. Received: {names_in(asked)}."
            )
        if asked.get("explain") and asked.get("rescore"):
            raise invalid_argument(
                "`explain` shows the score before rescoring; leave out `rescore`. "
                f"Received: {asked['rescore']}."
            )
        queries = asked["queries"] if "queries" in asked else [asked["query"]]
        started = time.perf_counter()
        prediction = await self._predict(
            "explain" if asked.get("explain") else "search",
            {"query": _strings(queries), **_parameters(asked, self._search.request["properties"])},
            lambda outputs: _wanted(asked, outputs),
            (asked.get("model"), record),
        )
        milliseconds = (time.perf_counter() - started) * 1e3
        results = [_result(query, row, asked, prediction.outputs) for row, query in enumerate(queries)]
        return _json({**_answered_by(prediction), "milliseconds": round(milliseconds, 2), "results": results})

    async def rerank(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers `/v1/rerank` and `/v2/rerank`, with the request and answer formats of Cohere and Jina.

        Args:
            request: A request with a query and the documents to rank.
            record: Record of the request for metrics and logs.

        Returns:
            The positions of the documents and their scores, best first.

        Raises:
            RequestError: The request is invalid, or the model failed.
        """
        asked = parse_body(request.body)
        check_body(asked, self._rerank.request)
        texts = [given if isinstance(given, str) else given["text"] for given in asked["documents"]]
        prediction = await self._score(asked["query"], texts, asked.get("model"), record)
        results = []
        for index in _best_first(prediction)[: int(asked.get("top_n", len(texts)))]:
            result: dict[str, Any] = {"index": index, "relevance_score": _relevance(prediction, index)}
            if "truncated" in prediction.outputs:
                result["truncated"] = bool(prediction.outputs["truncated"][0, index])
            if asked.get("return_documents"):
                result["document"] = {"text": texts[index]}
            results.append(result)
        return _json({"id": record.request_id, **_answered_by(prediction), "results": results})

    async def rerank_texts(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers `/rerank`, with the request and answer formats of Text Embeddings Inference.

        Args:
            request: A request with a query and the texts to rank.
            record: Record of the request for metrics and logs.

        Returns:
            The positions of the texts and their scores, best first.

        Raises:
            RequestError: The request is invalid, or the model failed.
        """
        asked = parse_body(request.body)
        check_body(asked, self._rerank_texts.request)
        texts = asked["texts"]
        prediction = await self._score(asked["query"], texts, None, record)
        shown = asked.get("return_text")
        return _json(
            [
                {
                    "index": index,
                    "score": _relevance(prediction, index),
                    **({"text": texts[index]} if shown else {}),
                }
                for index in _best_first(prediction)
            ]
        )

    async def _score(
        self, query: str, texts: Sequence[str], model: str | None, record: RequestRecord
    ) -> Prediction:
        inputs = {"query": _strings([query]), "documents": _strings(texts)[np.newaxis]}
        return await self._predict("score", inputs, tuple, (model, record))

    async def _predict(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray],
        choose: Callable[[Mapping[str, Any]], tuple[str, ...]],
        asked_by: tuple[str | None, RequestRecord],
    ) -> Prediction:
        """Runs a signature. `choose` selects the outputs to return."""
        model = self._model(asked_by[0])

        def decode(session: Signatures, max_elements: int) -> ModelCall:
            signature = session.signatures.get(name)
            if signature is None:
                raise RequestError(
                    Code.FAILED_PRECONDITION, f"Model {model:.100} has no signature `{name}` of a retriever."
                )
            if lacking := sorted(inputs.keys() - signature.inputs.keys()):
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"`{lacking[0]}` is not a parameter of `{name}` of model {model:.100}; leave it out.",
                )
            return ModelCall(signature, check_arrays(signature, inputs), choose(signature.outputs))

        return await self._predictor.predict(Target(model), decode, asked_by[1])

    def _model(self, name: str | None) -> str:
        if name is not None:
            return name
        served = sorted(self._models())
        if not served:
            raise not_found("This server has no model yet.")
        if len(served) > 1:
            raise invalid_argument(
                f"This server has several models; set `model` to one of {', '.join(served)}."
            )
        return served[0]


def _parameters(asked: Mapping[str, Any], kinds: Mapping[str, Schema]) -> dict[str, np.ndarray]:
    """Returns the given parameters, each with one value for all queries. `kinds` has their schemas."""
    given = {name: value for name, value in asked.items() if name not in _NOT_PARAMETERS}
    if "languages" in asked:
        given["languages"] = ",".join(asked["languages"])
    return {
        name: _strings([value]) if isinstance(value, str) else np.array([value], _DTYPES[kinds[name]["type"]])
        for name, value in given.items()
    }


def _wanted(asked: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the outputs that the answer needs."""
    names = asked.get("fields", ("title", "language"))
    described = {_DESCRIPTIONS.get(name, _FIELDS): name for name in names if name != _ALL}
    for output, name in described.items():
        if output not in outputs:
            how = "with `store_text`" if output == "texts" else "of a corpus with `fields`"
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"The model keeps no {output}; leave them out of `fields`, or export it {how}. "
                f"Received: {name!r:.80}.",
            )
    if _ALL in names:
        described.update(dict.fromkeys((*_DESCRIPTIONS.values(), _FIELDS)))
    wanted = ["document_ids", "scores", "missing_partitions", *described]
    wanted += _BOTH_SCORES.values() if "alpha" in asked else ()
    wanted += _MATCHES if asked.get("explain") else ()
    return tuple(name for name in wanted if name in outputs)


def _result(query: str, row: int, asked: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    answer = {name: array[row] for name, array in outputs.items()}
    found = [place for place, identifier in enumerate(answer["document_ids"]) if identifier]
    names = asked.get("fields", ())
    result: dict[str, Any] = {"query": query, "documents": [_document(answer, at, names) for at in found]}
    if missing := answer.get("missing_partitions"):
        result["missing_partitions"] = [int(number) for number in missing.split(b",")]
    return result


def _document(answer: Mapping[str, Any], place: int, names: Sequence[str]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": _text(answer["document_ids"][place]),
        "score": float(answer["scores"][place]),
    }
    for name, output in _BOTH_SCORES.items():
        if output in answer:
            document[name] = float(answer[output][place])
    for name, output in _DESCRIPTIONS.items():
        if output in answer:
            document[name] = _text(answer[output][place])
    if _FIELDS in answer:
        fields = json.loads(answer[_FIELDS][place])
        document["fields"] = {name: value for name, value in fields.items() if _ALL in names or name in names}
    if "query_pieces" in answer:
        document["matches"] = _matches(answer, place)
    return document


def _matches(answer: Mapping[str, Any], place: int) -> list[dict[str, Any]]:
    return [
        {
            "token": _text(piece),
            "match": _text(answer["document_pieces"][place, token]),
            "score": float(answer["token_scores"][place, token]),
            "retrieved": bool(answer["retrieved"][place, token]),
            "start": int(answer["starts"][place, token]),
            "limit": int(answer["limits"][place, token]),
            "weight": float(answer["weights"][token]),
        }
        for token, piece in enumerate(answer["query_pieces"])
        if piece
    ]


def _best_first(prediction: Prediction) -> list[int]:
    order: list[int] = np.argsort(-prediction.outputs["scores"][0], kind="stable").tolist()
    return order


def _relevance(prediction: Prediction, index: int) -> float:
    score = float(prediction.outputs["scores"][0, index])
    return score if math.isfinite(score) else _WITHOUT_TEXT


def _answered_by(prediction: Prediction) -> dict[str, Any]:
    return {"model": prediction.name, "version": prediction.version}


def _strings(values: Sequence[str]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = [value.encode("utf-8", "replace") for value in values]
    return array


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _json(document: Any) -> HttpResponse:
    return HttpResponse(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
