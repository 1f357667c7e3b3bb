"""The signature that says why: which token of a document answered which token of the query."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xtr_tf.retriever.blank import require_text
from xtr_tf.retriever.explanation import find_matches
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.search_request import SearchRequest
from xtr_tf.scoring import missing_similarities


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
