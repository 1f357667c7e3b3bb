"""The server's own endpoints as data (paths, requests, answers), and their OpenAPI document.

Requests are checked against the same schemas (`json_schema.py`) and answered in `search_api.py`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from serving.server.collection.request import PARTIAL
from serving.server.requests.limits import Limits
from serving.server.wire.json_schema import Schema, flag, many, number, record, text, whole
from xtr_tf.config.retrieval import FUSIONS, IMPUTATIONS, MAX_TOP_K, NO_MIN_SCORE, TOKEN_WEIGHTS
from xtr_tf.version import __version__

PATH = "/openapi.json"
_ABOUT = (
    "Search and reranking with XTR. The same models also answer TensorFlow Serving's REST API under "
    "/v1/models, which this document does not describe."
)
_MODEL = text("A model of this server. Optional if the server has only one.")
_QUERY = text("Text to search for. Must not be empty.")
_SCORE: Schema = {"type": "number"}


@dataclasses.dataclass(frozen=True)
class Operation:
    """An endpoint for POST.

    Attributes:
        path: Path of the endpoint.
        name: Name of the function in generated clients.
        summary: One line about what it does.
        request: Schema of the request.
        answer: Schema of the answer.
    """

    path: str
    name: str
    summary: str
    request: Schema
    answer: Schema


def search_operation(limits: Limits) -> Operation:
    """Returns the endpoint `/v1/search`, for one query or several in one model."""
    request = record(
        {
            "model": _MODEL,
            "query": _QUERY,
            "queries": many("Several queries, instead of `query`.", _QUERY, 1, limits.max_rows),
            "top_k": whole("Documents to return per query.", 1, min(MAX_TOP_K, limits.max_top_k)),
            "k_prime": whole("Document tokens that each query token retrieves.", 1, limits.max_k_prime),
            "leaves": whole("Leaves of the index to search. 0 lets the index choose.", 0),
            "imputation": text("How missing similarities are filled in.", *IMPUTATIONS),
            "constant": number("Similarity to impute if `imputation` is `constant`.", -1e30, 1e30),
            "languages": many("Return only documents in these languages.", text("A language, such as `de`.")),
            "filter": text("Conditions on document fields, such as `year>=2020;source=wiki|faq`."),
            "token_weights": text("Weights of query tokens.", *TOKEN_WEIGHTS),
            "alpha": number("Weight of BM25 in the score, from 0 (XTR) to 1 (BM25).", 0, 1),
            "fusion": text("How to combine the two scores.", *FUSIONS),
            "rescore": whole("Candidates to rank again by exact f_ColBERT. 0 for none.", 0, MAX_TOP_K),
            "min_score": number("Lowest score of a document to return.", NO_MIN_SCORE, -NO_MIN_SCORE),
            "fields": many(
                "Parts of documents to return: `title`, `language`, `text`, names of declared fields, or `*` "
                "for everything that the model keeps. Defaults to title and language.",
                text("A name."),
            ),
            "partial": text("For a collection: what to do if partitions do not answer.", *PARTIAL),
            "explain": flag("Return which document tokens matched the query tokens. Not with `rescore`."),
        }
    )
    request["oneOf"] = [{"required": ["query"]}, {"required": ["queries"]}]
    match = record(
        {
            "token": text("The query token."),
            "match": text("The document token, empty if none of the document was retrieved."),
            "score": _SCORE,
            "retrieved": {"type": "boolean"},
            "start": {"type": "integer", "description": 'First character in "{title} {text}", or -1.'},
            "limit": {"type": "integer"},
            "weight": _SCORE,
        }
    )
    document = record(
        {
            "id": {"type": "string"},
            "score": _SCORE,
            "title": {"type": "string"},
            "language": {"type": "string"},
            "text": {"type": "string"},
            "fields": {"type": "object", "description": "Declared fields that were requested."},
            "xtr_score": {**_SCORE, "description": "f_XTR', if the request has `alpha`."},
            "lexical_score": {**_SCORE, "description": "BM25, if the request has `alpha`."},
            "matches": many("With `explain`.", match),
        },
        ("id", "score"),
    )
    result = record(
        {
            "query": {"type": "string"},
            "documents": many("Best first.", document),
            "missing_partitions": many(
                "For a collection: partitions that did not answer.", {"type": "integer"}
            ),
        },
        ("query", "documents"),
    )
    answer = record(
        {
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "milliseconds": {**_SCORE, "description": "Time that the model took."},
            "results": many("In the order of the queries.", result),
        },
        ("model", "version", "milliseconds", "results"),
    )
    return Operation("/v1/search", "search", "Search with one query or several", request, answer)


def rerank_operation(limits: Limits) -> Operation:
    """Returns the endpoint `/v1/rerank`, with the request and answer formats of Cohere and Jina."""
    given: Schema = {
        "anyOf": [text("A text."), record({"text": text("A text.")}, ("text",), closed=False)],
    }
    request = record(
        {
            "model": _MODEL,
            "query": _QUERY,
            "documents": many("Documents to rank.", given, 1, limits.max_texts),
            "top_n": whole("Documents to return. Defaults to all.", 1),
            "return_documents": flag("Whether to return the texts."),
        },
        ("query", "documents"),
    )
    result = record(
        {
            "index": {"type": "integer", "description": "Position among `documents`."},
            "relevance_score": {**_SCORE, "description": "Exact f_ColBERT, -1 for a document without text."},
            "truncated": {"type": "boolean", "description": "Whether the end of the document was cut off."},
            "document": record({"text": {"type": "string"}}, ("text",)),
        },
        ("index", "relevance_score"),
    )
    answer = record(
        {
            "id": text("Id of the request, as in the header `x-request-id`."),
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "results": many("Best first.", result),
        },
        ("id", "model", "version", "results"),
    )
    return Operation("/v1/rerank", "rerank", "Rank given documents for a query", request, answer)


def rerank_texts_operation(limits: Limits) -> Operation:
    """Returns the endpoint `/rerank`, with the request and answer formats of Text Embeddings Inference."""
    request = record(
        {
            "query": _QUERY,
            "texts": many("Texts to rank.", text("A text."), 1, limits.max_texts),
            "return_text": flag("Whether to return the texts."),
            "raw_scores": flag("For compatibility. Scores are always raw."),
            "truncate": flag("For compatibility. Long texts are always truncated."),
        },
        ("query", "texts"),
    )
    result = record(
        {"index": {"type": "integer"}, "score": _SCORE, "text": {"type": "string"}}, ("index", "score")
    )
    answer = many("Best first.", result)
    return Operation("/rerank", "rerank_texts", "Rank given texts as TEI does", request, answer)


def render_document(operations: list[Operation], asks_for_tokens: bool) -> bytes:
    """Returns the OpenAPI document.

    Args:
        operations: The endpoints.
        asks_for_tokens: Whether callers need a bearer token.

    Returns:
        The document as JSON.
    """
    refused = {
        "description": "Refused or failed, with one sentence about why.",
        "content": _json({"$ref": "#/components/schemas/Error"}),
    }
    paths = {
        operation.path: {
            "post": {
                "operationId": operation.name,
                "summary": operation.summary,
                "requestBody": {"required": True, "content": _json(operation.request)},
                "responses": {
                    "200": {"description": "The answer.", "content": _json(operation.answer)},
                    "default": refused,
                },
            }
        }
        for operation in operations
    }
    components: dict[str, Any] = {"schemas": {"Error": record({"error": {"type": "string"}}, ("error",))}}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "xtr-tf", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": components,
    }
    if asks_for_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
