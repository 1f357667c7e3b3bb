"""The signature that explains a result: which token of a document answered which token of the query.

Knows nothing about how tokens were retrieved or how scores are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from xtr_tf.retriever.hybrid import HybridDocuments
from xtr_tf.retriever.request import QUERY, SearchRequest, require_text, with_parameters
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.snippets import cut_snippets
from xtr_tf.retriever.token_search import at_least_one_row
from xtr_tf.scoring.token_hits import TokenHits
from xtr_tf.scoring.token_owners import DocumentOf

#: From queries, a request and the queries' texts, if they have any, to the hits and the ranked documents.
SearchFunction = Callable[..., tuple[TokenHits, HybridDocuments]]


def explain_signature(retriever: Retriever, search: SearchFunction) -> dict[str, Any]:
    """Returns the signature `explain`, by name.

    Args:
        retriever: The retriever.
        search: Its `search_with_hits`.

    Returns:
        A `tf.function` by name.
    """

    def explain(query: tf.Tensor, request: SearchRequest) -> dict[str, tf.Tensor]:
        # This explains the score of the retrieved tokens, which rescoring does not change.
        request = request._replace(rescore=tf.constant([0])).checked(tf.size(query))
        return _explain(retriever, search, query, request)

    names = [name for name in SearchRequest._fields if name != "rescore"]
    return {"explain": with_parameters(explain, [QUERY], retriever.defaults, names)}


def _explain(
    retriever: Retriever, search: SearchFunction, query: tf.Tensor, request: SearchRequest
) -> dict[str, tf.Tensor]:
    ids = require_text(retriever.query_ids(query), "query")
    queries = retriever.weigh(retriever.encode(ids), ids, request.token_weights)
    hits, ranked = search(queries, request, query)
    missing = retriever.missing_similarities(hits, queries, request)
    alignment = align(hits, missing, queries.mask, retriever.owners.look_up, ranked.ordinals)
    pieces, starts, limits = _look_up_tokens(retriever, alignment.tokens)
    return {
        **_describe(retriever, ranked),
        "texts": retriever.documents.look_up_texts(ranked.ordinals),
        "query_pieces": ids.with_values(retriever.tokenizer.pieces(ids.values)).to_tensor(""),
        "retrieved": alignment.retrieved,
        "token_scores": alignment.scores,
        "document_pieces": retriever.tokenizer.pieces(pieces),
        "starts": starts,
        "limits": limits,
        "weights": tf.where(queries.mask, 1.0 if queries.weights is None else queries.weights, 0.0),
    }


def describe_documents(
    retriever: Retriever,
    ranked: HybridDocuments,
    hits: TokenHits,
    query_mask: tf.Tensor,
    of_text: bool = True,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of searches for the documents that were found.

    Args:
        retriever: The retriever that found them.
        ranked: The documents.
        hits: Hits of the valid query tokens, for snippets.
        query_mask: `[queries, length]` bool, which positions are tokens.
        of_text: Whether queries were given as text. There are then both scores, if the model has BM25.

    Returns:
        The outputs of a signature by name.
    """
    described = _describe(retriever, ranked, of_text)
    if retriever.documents.snippets and "texts" in described:
        described["texts"] = _snippets(retriever, ranked.ordinals, hits, query_mask, described)
    return described


def _describe(retriever: Retriever, ranked: HybridDocuments, of_text: bool = True) -> dict[str, tf.Tensor]:
    both = {"xtr_scores": ranked.xtr_scores, "lexical_scores": ranked.lexical_scores}
    return {
        "scores": ranked.scores,
        **(both if of_text and retriever.lexical is not None else {}),
        **retriever.documents.look_up(ranked.ordinals),
        **retriever.documents.look_up_contents(ranked.ordinals),
    }


def _look_up_tokens(retriever: Retriever, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns pieces, starts and limits; -1 if the retriever does not store them."""
    if retriever.tokens:
        return retriever.tokens.look_up(tokens)
    unknown = tf.fill(tf.shape(tokens), -1)
    return unknown, unknown, unknown


def _snippets(
    retriever: Retriever,
    ordinals: tf.Tensor,
    hits: TokenHits,
    query_mask: tf.Tensor,
    described: dict[str, tf.Tensor],
) -> tf.Tensor:
    alignment = align(hits, hits.cutoffs, query_mask, retriever.owners.look_up, ordinals)
    _, starts, limits = _look_up_tokens(retriever, alignment.tokens)
    return cut_snippets(described["texts"], described["titles"], starts, limits, alignment.scores)


class Alignment(NamedTuple):
    """The best retrieved token of each document for each query token, `[queries, documents, length]`.

    Attributes:
        tokens: int32 token ordinals, -1 where nothing was retrieved.
        scores: float32 similarities; m_i where nothing was retrieved.
        retrieved: bool, whether something was retrieved.
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    retrieved: tf.Tensor


def align(
    hits: TokenHits,
    missing: tf.Tensor,
    query_mask: tf.Tensor,
    document_of: DocumentOf,
    ordinals: tf.Tensor,
) -> Alignment:
    """Aligns query tokens with the tokens of some documents that they retrieved.

    Query tokens are processed one by one, so that memory is bounded by the number of documents times the hits
    of a row.

    Args:
        hits: `[rows, columns]`, hits of the valid query tokens of all queries.
        missing: `[rows]` float32, m_i.
        query_mask: `[queries, length]` bool.
        document_of: Function from token ordinals to the ordinals of their documents.
        ordinals: `[queries, documents]` int32, -1 for no document.

    Returns:
        The alignment; zeros and -1 where `query_mask` is false.
    """
    query_tokens = tf.where(query_mask)

    def align_row(row: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        token_ids, scores, valid, of_query = row
        documents = document_of(token_ids)
        hit = (documents[tf.newaxis, :] == of_query[:, tf.newaxis]) & valid[tf.newaxis, :]
        similarities = tf.where(hit, scores[tf.newaxis, :], -float("inf"))
        best = tf.argmax(similarities, axis=1)
        return tf.gather(token_ids, best), tf.reduce_max(similarities, axis=1), tf.reduce_any(hit, axis=1)

    count = tf.shape(query_tokens)[0]
    rows = (hits.token_ids, hits.scores, hits.valid, tf.gather(ordinals, query_tokens[:, 0]))
    tokens, scores, retrieved = tf.map_fn(
        align_row,
        tuple(at_least_one_row(part) for part in rows),
        fn_output_signature=(
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
            tf.TensorSpec([None], tf.bool),
        ),
    )
    tokens, scores, retrieved = tokens[:count], scores[:count], retrieved[:count]
    scores = tf.where(retrieved, scores, missing[:, tf.newaxis])

    def spread(values: tf.Tensor) -> tf.Tensor:
        """`[rows, documents]` to `[queries, documents, length]`."""
        shape = tf.concat([tf.shape(query_mask), tf.shape(ordinals)[1:]], axis=0)
        return tf.transpose(tf.scatter_nd(query_tokens, values, tf.cast(shape, tf.int64)), [0, 2, 1])

    is_document = (ordinals >= 0)[:, :, tf.newaxis]
    return Alignment(
        # Scattering fills with zeros, so ordinals are shifted by one before it and back after it.
        tokens=spread(tf.where(retrieved, tokens + 1, 0)) - 1,
        scores=tf.where(is_document, spread(scores), 0.0),
        retrieved=spread(tf.cast(retrieved, tf.int32)) > 0,
    )
