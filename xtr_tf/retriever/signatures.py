"""The functions of an exported retriever. Their names, dtypes and shapes are public interface.

`B` queries, `K` documents (`top_k`), `L` tokens of the longest query, `D` vector width, `?` any number.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `query` string[B] | `document_ids` string[B, K], `scores` float[B, K] |
| `search` | `query` string[B], *parameters* | `document_ids`, `titles`, `languages` string[B, K], \
`scores` float[B, K] |
| `search_vectors` | `encodings` float[B, L, D], `mask` bool[B, L], *parameters* | as `search` |
| `search_tokens` | `query` string[B], `k_prime` int32[], `leaves` int32[] | per query token (row, R in all) \
and hit (C): `query_of_row` int32[R], `token_ids` int32[R, C], `scores` float[R, C], `cutoffs` float[R], \
`documents` int32[R, C], which counts in `document_ids`, `titles`, `languages` string[?] |
| `explain` | as `search`, without `rescore` | as `search`, and `texts` string[B, K], `query_pieces` \
string[B, L], `retrieved` bool[B, K, L], `token_scores` float[B, K, L], `document_pieces` string[B, K, L], \
`starts`, `limits` int32[B, K, L] |
| `encode_query` | `query` string[B] | `encodings` float[B, L, D], `mask` bool[B, L] |
| `encode_document` | `document` string[B] | as `encode_query` |
| `score` | `query` string[B], `documents` string[B, ?] | `scores` float[B, ?], exact f_ColBERT |

*Parameters*, each with the model's default where the server knows defaults of inputs:

| input | | range |
|---|---|---|
| `k_prime` | int32[] | tokens a query token retrieves: 1 or more; more than there are means all |
| `top_k` | int32[] | documents returned: 1 to 10,000 |
| `leaves` | int32[] | cells of the index looked into: 0 (the index's own rule) or more |
| `imputation` | string[] | `top_k_prime`, `zero`, `constant` or `none` |
| `constant` | float[] | any finite number; counts with `constant` alone |
| `languages` | string[?] | documents in one of these alone; empty, or "" alone, for all |
| `rescore` | int32[] | candidates ranked anew by exact f_ColBERT: 0 (none), or `top_k` to 10,000 where the \
index keeps vectors |

Results are in descending order of score. Where fewer than K documents are found, the rest is "" and -inf.
A query longer than the tokenizer's limit is cut to it; bytes that are not UTF-8 count as U+FFFD. A blank
query is refused, save by `serving_default`, which finds nothing for it: servers join requests of several
callers to one batch, and one caller's mistake must not fail the others. Where `retrieved` is false,
`token_scores` holds what was imputed and the piece is "" with the span -1 to -1; spans count characters
of `"{title} {text}"`. In `search_tokens`, a hit that is padding has the document -1 and the score -inf.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xtr_tf.retriever.explain import explain_signature
from xtr_tf.retriever.request import SearchRequest, is_blank, require, require_text
from xtr_tf.retriever.retriever import EncodedTexts, Retriever
from xtr_tf.scoring.documents import RankedDocuments
from xtr_tf.scoring.maxsim import score_in_chunks, sum_of_max
from xtr_tf.scoring.token_hits import TokenHits


def build_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns a `tf.function` for every signature, by name."""
    return {**search_signatures(retriever), **text_signatures(retriever), **explain_signature(retriever)}


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


def text_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `encode_query`, `encode_document` and `score`."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="query")])
    def encode_query(query: tf.Tensor) -> dict[str, tf.Tensor]:
        return retriever.encode(retriever.query_ids(query))._asdict()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="document")])
    def encode_document(document: tf.Tensor) -> dict[str, tf.Tensor]:
        return retriever.encode(retriever.document_ids(document))._asdict()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="query"),
            tf.TensorSpec([None, None], tf.string, name="documents"),
        ]
    )
    def score(query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": _score(retriever, query, documents)}

    return {"encode_query": encode_query, "encode_document": encode_document, "score": score}


def _score(retriever: Retriever, query: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
    """f_ColBERT of `[queries]` with each of its `[queries, documents]`; blank documents get `-inf`."""
    queries = retriever.encode(require_text(retriever.query_ids(query), "query"))
    one_row_each = require(
        tf.shape(documents)[0] == tf.shape(query)[0],
        "`documents` must have one row of documents for every query. Received: shape",
        tf.shape(documents),
    )
    with tf.control_dependencies([one_row_each]):
        documents = tf.identity(documents)
    per_query = tf.shape(documents)[1]
    ids = retriever.document_ids(tf.reshape(documents, [-1]))

    def score_chunk(positions: tf.Tensor) -> tf.Tensor:
        encoded = retriever.encode(tf.gather(ids, positions))
        owners = positions // per_query
        return sum_of_max(
            tf.gather(queries.encodings, owners),
            tf.gather(queries.mask, owners),
            encoded.encodings,
            encoded.mask,
        )

    scores = score_in_chunks(tf.size(documents), score_chunk)
    scores = tf.where(is_blank(ids), -float("inf"), scores)
    return tf.reshape(scores, tf.shape(documents))
