"""The signatures that search: from strings, from a caller's vectors, and for a caller who merges shards."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xtr_tf.retriever.blank import is_blank, require_text
from xtr_tf.retriever.encoded_texts import EncodedTexts
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.search_request import SearchRequest, require
from xtr_tf.scoring import RankedDocuments
from xtr_tf.search.token_hits import TokenHits

QUERY = tf.TensorSpec([None], tf.string, name="query")


def search_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `serving_default`, `search`, `search_vectors` and `search_tokens`."""
    defaults = SearchRequest.default(retriever.defaults)
    specs = SearchRequest.specs()

    @tf.function(input_signature=[QUERY])
    def serving_default(query: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = retriever.query_ids(query)
        encoded = retriever.encode(ids)
        # Servers join the requests of several callers: a blank query finds nothing, and harms nobody else.
        encoded = encoded._replace(mask=encoded.mask & ~is_blank(ids)[:, tf.newaxis])
        ranked = retriever.search(encoded, defaults._replace(languages=None))
        shape = [None, retriever.defaults.top_k]
        return {
            "document_ids": tf.ensure_shape(retriever.documents.look_up_ids(ranked.ordinals), shape),
            "scores": tf.ensure_shape(ranked.scores, shape),
        }

    @tf.function(input_signature=[QUERY, *specs.values()])
    def search(
        query: tf.Tensor,
        k_prime: tf.Tensor = defaults.k_prime,
        top_k: tf.Tensor = defaults.top_k,
        leaves: tf.Tensor = defaults.leaves,
        imputation: tf.Tensor = defaults.imputation,
        constant: tf.Tensor = defaults.constant,
        languages: tf.Tensor = defaults.languages,
        rescore: tf.Tensor = defaults.rescore,
    ) -> dict[str, tf.Tensor]:
        request = SearchRequest(k_prime, top_k, leaves, imputation, constant, languages, rescore).checked()
        encoded = retriever.encode(require_text(retriever.query_ids(query), "query"))
        return _documents(retriever, retriever.search(encoded, request))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, retriever.dim], tf.float32, name="encodings"),
            tf.TensorSpec([None, None], tf.bool, name="mask"),
            *specs.values(),
        ]
    )
    def search_vectors(
        encodings: tf.Tensor,
        mask: tf.Tensor,
        k_prime: tf.Tensor = defaults.k_prime,
        top_k: tf.Tensor = defaults.top_k,
        leaves: tf.Tensor = defaults.leaves,
        imputation: tf.Tensor = defaults.imputation,
        constant: tf.Tensor = defaults.constant,
        languages: tf.Tensor = defaults.languages,
        rescore: tf.Tensor = defaults.rescore,
    ) -> dict[str, tf.Tensor]:
        request = SearchRequest(k_prime, top_k, leaves, imputation, constant, languages, rescore).checked()
        return _documents(retriever, retriever.search(_checked_vectors(encodings, mask), request))

    @tf.function(input_signature=[QUERY, specs["k_prime"], specs["leaves"]])
    def search_tokens(
        query: tf.Tensor, k_prime: tf.Tensor = defaults.k_prime, leaves: tf.Tensor = defaults.leaves
    ) -> dict[str, tf.Tensor]:
        encoded = retriever.encode(require_text(retriever.query_ids(query), "query"))
        return _token_hits(retriever, encoded, retriever.find_tokens(encoded, k_prime, leaves))

    return {
        "serving_default": serving_default,
        "search": search,
        "search_vectors": search_vectors,
        "search_tokens": search_tokens,
    }


def _documents(retriever: Retriever, ranked: RankedDocuments) -> dict[str, tf.Tensor]:
    return {"scores": ranked.scores, **retriever.documents.look_up(ranked.ordinals)}


def _checked_vectors(encodings: tf.Tensor, mask: tf.Tensor) -> EncodedTexts:
    agree = require(
        tf.reduce_all(tf.shape(encodings)[:2] == tf.shape(mask)),
        "`mask` must have the first two dimensions of `encodings`. Received: mask of shape",
        tf.shape(mask),
    )
    with tf.control_dependencies([agree]):
        empty = ~tf.reduce_any(mask, axis=1)
    marked = require(
        ~tf.reduce_any(empty),
        "`mask` must mark at least one token of every query. Received: none at position",
        tf.where(empty)[:, 0],
    )
    with tf.control_dependencies([marked]):
        return EncodedTexts(tf.identity(encodings), tf.identity(mask))


def _token_hits(retriever: Retriever, queries: EncodedTexts, hits: TokenHits) -> dict[str, tf.Tensor]:
    """Hits with a list of the documents they belong to, in document order, so that ids are sent once."""
    owners = tf.gather(retriever.document_of_token, hits.token_ids)
    found = tf.math.unsorted_segment_max(
        tf.cast(hits.valid, tf.int32), owners, retriever.documents.num_documents
    )
    found = tf.maximum(found, 0)
    positions = tf.gather(tf.cumsum(found) - 1, owners)
    ordinals = tf.cast(tf.where(found > 0)[:, 0], tf.int32)
    return {
        "query_of_row": tf.cast(tf.where(queries.mask)[:, 0], tf.int32),
        "token_ids": hits.token_ids,
        "scores": hits.scores,
        "cutoffs": hits.cutoffs,
        "documents": tf.where(hits.valid, positions, -1),
        **retriever.documents.look_up(ordinals),
    }
