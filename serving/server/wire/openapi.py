"""The server's own endpoints as data: paths, requests, answers; and their OpenAPI document.

The only place that lists them. Requests are checked by the same schemas (`json_schema.py`), and answered in
`search_api.py`.
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
    "Search and reranking by XTR. The same models answer TensorFlow Serving's REST API under /v1/models, "
    "which this document leaves out."
)
_MODEL = text("A model of this server; may be left out if it has only one.")
_QUERY = text("What to search for; must contain text.")
_SCORE: Schema = {"type": "number"}


@dataclasses.dataclass(frozen=True)
class Operation:
    """An endpoint for POST.

    Attributes:
        path: Where it is.
        name: What generated clients call it.
        summary: What it does, in a line.
        request: Schema of what it takes.
        answer: Schema of what it gives.
    """

    path: str
    name: str
    summary: str
    request: Schema
    answer: Schema


def search_operation(limits: Limits) -> Operation:
    """`/v1/search`: a query or several, in one model."""
    request = record(
        {
            "model": _MODEL,
            "query": _QUERY,
            "queries": many("Several, instead of `query`.", _QUERY, 1, limits.max_rows),
            "top_k": whole("Documents for each query.", 1, min(MAX_TOP_K, limits.max_top_k)),
            "k_prime": whole("Document tokens that each query token retrieves.", 1, limits.max_k_prime),
            "leaves": whole("Leaves of the index to search; 0 for its own rule.", 0),
            "imputation": text("How query tokens that retrieved nothing of a document count.", *IMPUTATIONS),
            "constant": number("What they count for under `constant`.", -1e30, 1e30),
            "languages": many("Only documents in one of these.", text("Such as `de`.")),
            "filter": text("Only documents that meet these conditions: `year>=2020;source=wiki|faq`."),
            "token_weights": text("What query tokens count for.", *TOKEN_WEIGHTS),
            "alpha": number("What BM25 counts for, from 0 (XTR) to 1 (BM25).", 0, 1),
            "fusion": text("How the two scores become one.", *FUSIONS),
            "rescore": whole("Candidates to rank again by exact f_ColBERT; 0 for none.", 0, MAX_TOP_K),
            "min_score": number("Documents with a lower score are left out.", NO_MIN_SCORE, -NO_MIN_SCORE),
            "fields": many(
                "What to return of documents: `title`, `language`, `text`, names of declared fields, or `*` "
                "for all that the model keeps. By default title and language.",
                text("A name."),
            ),
            "partial": text("Of a collection: what to do about partitions that do not answer.", *PARTIAL),
            "explain": flag("Return which document token answered which query token. Not with `rescore`."),
        }
    )
    request["oneOf"] = [{"required": ["query"]}, {"required": ["queries"]}]
    match = record(
        {
            "token": text("The query's token."),
            "match": text("The document's, empty if nothing of the document was retrieved."),
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
            "fields": {"type": "object", "description": "Declared fields that were asked for."},
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
            "missing_partitions": many("Of a collection, those without an answer.", {"type": "integer"}),
        },
        ("query", "documents"),
    )
    answer = record(
        {
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "milliseconds": {**_SCORE, "description": "What the model took."},
            "results": many("In the order of the queries.", result),
        },
        ("model", "version", "milliseconds", "results"),
    )
    return Operation("/v1/search", "search", "Search with one query or several", request, answer)


def rerank_operation(limits: Limits) -> Operation:
    """`/v1/rerank`: the request and the answer that clients of Cohere and Jina know."""
    given: Schema = {
        "anyOf": [text("A text."), record({"text": text("A text.")}, ("text",), closed=False)],
    }
    request = record(
        {
            "model": _MODEL,
            "query": _QUERY,
            "documents": many("What to rank.", given, 1, limits.max_texts),
            "top_n": whole("How many to return; all by default.", 1),
            "return_documents": flag("Return the texts, too."),
        },
        ("query", "documents"),
    )
    result = record(
        {
            "index": {"type": "integer", "description": "Position among `documents`."},
            "relevance_score": {**_SCORE, "description": "Exact f_ColBERT, -1 for a document without text."},
            "truncated": {"type": "boolean", "description": "Whether the document's end was not read."},
            "document": record({"text": {"type": "string"}}, ("text",)),
        },
        ("index", "relevance_score"),
    )
    answer = record(
        {
            "id": text("The request's, as in the header `x-request-id`."),
            "model": {"type": "string"},
            "version": {"type": "integer"},
            "results": many("Best first.", result),
        },
        ("id", "model", "version", "results"),
    )
    return Operation("/v1/rerank", "rerank", "Rank given documents for a query", request, answer)


def rerank_texts_operation(limits: Limits) -> Operation:
    """`/rerank`: the same for clients of Text Embeddings Inference."""
    request = record(
        {
            "query": _QUERY,
            "texts": many("What to rank.", text("A text."), 1, limits.max_texts),
            "return_text": flag("Return the texts, too."),
            "raw_scores": flag("Taken for compatibility: scores are raw in any case."),
            "truncate": flag("Taken for compatibility: long texts are cut in any case."),
        },
        ("query", "texts"),
    )
    result = record(
        {"index": {"type": "integer"}, "score": _SCORE, "text": {"type": "string"}}, ("index", "score")
    )
    answer = many("Best first.", result)
    return Operation("/rerank", "rerank_texts", "Rank given texts as TEI does", request, answer)


def render_document(operations: list[Operation], asks_for_tokens: bool) -> bytes:
    """The OpenAPI document, as JSON.

    Args:
        operations: The endpoints.
        asks_for_tokens: Whether callers need a bearer token.
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
