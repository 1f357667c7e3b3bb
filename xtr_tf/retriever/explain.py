"""The signature that says why: which token of a document answered which token of the query."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from xtr_tf.retriever.request import SearchRequest, require_text
from xtr_tf.retriever.retriever import Retriever, at_least_one_row
from xtr_tf.scoring.documents import missing_similarities
from xtr_tf.scoring.token_hits import TokenHits


def explain_signature(retriever: Retriever) -> dict[str, Any]:
    """Returns `explain`."""
    defaults = SearchRequest.default(retriever.defaults)
    specs = SearchRequest.specs()
    del specs["rescore"]  # What is explained is the score of the tokens that were found.

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="query"), *specs.values()])
    def explain(
        query: tf.Tensor,
        k_prime: tf.Tensor = defaults.k_prime,
        top_k: tf.Tensor = defaults.top_k,
        leaves: tf.Tensor = defaults.leaves,
        imputation: tf.Tensor = defaults.imputation,
        constant: tf.Tensor = defaults.constant,
        languages: tf.Tensor = defaults.languages,
    ) -> dict[str, tf.Tensor]:
        none = tf.constant(0)
        request = SearchRequest(k_prime, top_k, leaves, imputation, constant, languages, none).checked()
        return _explain(retriever, query, request)

    return {"explain": explain}


def _explain(retriever: Retriever, query: tf.Tensor, request: SearchRequest) -> dict[str, tf.Tensor]:
    ids = require_text(retriever.query_ids(query), "query")
    queries = retriever.encode(ids)
    hits = retriever.find_tokens(queries, request.k_prime, request.leaves)
    ranked = retriever.rank(hits, queries, request)
    missing = missing_similarities(hits.cutoffs, request.imputation, request.constant)
    matches = find_matches(hits, missing, queries.mask, retriever.document_of_token, ranked.ordinals)
    unknown = tf.fill(tf.shape(matches.tokens), -1)
    pieces, starts, limits = (
        retriever.tokens.look_up(matches.tokens) if retriever.tokens else (unknown, unknown, unknown)
    )
    return {
        "scores": ranked.scores,
        **retriever.documents.look_up(ranked.ordinals),
        "texts": retriever.documents.look_up_texts(ranked.ordinals),
        "query_pieces": ids.with_values(retriever.tokenizer.pieces(ids.values)).to_tensor(""),
        "retrieved": matches.retrieved,
        "token_scores": matches.scores,
        "document_pieces": retriever.tokenizer.pieces(pieces),
        "starts": starts,
        "limits": limits,
    }


class Matches(NamedTuple):
    """The best retrieved token of each document for each query token, `[queries, documents, length]`.

    Attributes:
        tokens: int32 token ordinals, -1 where nothing was retrieved.
        scores: float32 similarities; where nothing was retrieved, what was imputed.
        retrieved: bool.
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    retrieved: tf.Tensor


def find_matches(
    hits: TokenHits,
    missing: tf.Tensor,
    query_mask: tf.Tensor,
    document_of_token: tf.Tensor,
    ordinals: tf.Tensor,
) -> Matches:
    """Picks the hits of some documents.

    One query token is looked at after the other, so that memory is bounded by
    documents times hits of a row.

    Args:
        hits: `[rows, columns]`, the valid query tokens of all queries.
        missing: `[rows]` float32, the similarity imputed to what was not retrieved.
        query_mask: `[queries, length]` bool.
        document_of_token: `[tokens]` int32.
        ordinals: `[queries, documents]` int32, -1 for none.

    Returns:
        The matches; zeros and -1 where `query_mask` is false.
    """
    places = tf.where(query_mask)

    def match_row(row: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        token_ids, scores, valid, wanted = row
        owners = tf.gather(document_of_token, token_ids)
        own = (owners[tf.newaxis, :] == wanted[:, tf.newaxis]) & valid[tf.newaxis, :]
        candidates = tf.where(own, scores[tf.newaxis, :], -float("inf"))
        best = tf.argmax(candidates, axis=1)
        return tf.gather(token_ids, best), tf.reduce_max(candidates, axis=1), tf.reduce_any(own, axis=1)

    count = tf.shape(places)[0]
    rows = (hits.token_ids, hits.scores, hits.valid, tf.gather(ordinals, places[:, 0]))
    tokens, scores, retrieved = tf.map_fn(
        match_row,
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
        return tf.transpose(tf.scatter_nd(places, values, tf.cast(shape, tf.int64)), [0, 2, 1])

    is_document = (ordinals >= 0)[:, :, tf.newaxis]
    return Matches(
        # Scattering fills with zeros, so that ordinals are shifted by one on the way.
        tokens=spread(tf.where(retrieved, tokens + 1, 0)) - 1,
        scores=tf.where(is_document, spread(scores), 0.0),
        retrieved=spread(tf.cast(retrieved, tf.int32)) > 0,
    )
