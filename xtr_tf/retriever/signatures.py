"""The functions of an exported retriever. Their names, dtypes and shapes are a public interface.

`B` queries, `K` documents (`top_k`), `L` tokens of the longest query, `D` vector width, `?` any number.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `query` string[B] | `document_ids` string[B, K], `scores` float[B, K] |
| `search` | `query` string[B], *parameters* | `document_ids`, `titles`, `languages` string[B, K], \
`scores` float[B, K]; if they are stored, `texts` (or snippets of them) and `fields` (JSON) string[B, K]; \
with BM25, \
`xtr_scores`, `lexical_scores` float[B, K] |
| `search_vectors` | `encodings` float[B, L, D], `mask` bool[B, L], `weights` float[B, L], *parameters* \
without `token_weights`, `alpha`, `fusion` | as `search`, without `xtr_scores`, `lexical_scores` |
| `search_tokens` | `query` string[B], `k_prime`, `leaves` int32[B], `languages`, `filter` string[B] | per \
query token (L) and hit (C): `mask` bool[B, L], `token_ids` int32[B, L, C], `scores` float[B, L, C], \
`cutoffs` float[B, L], `documents` int32[B, L, C], positions in the query's own `document_ids`, `titles`, \
`languages` string[B, ?] (`ordinals` int32[B, ?]); if pieces are counted, `piece_documents` int32[B, L], \
`piece_background` float[B, L], `num_documents` int32[B] |
| `search_vectors_tokens` | `encodings`, `mask`, and the parameters of `search_tokens` | as `search_tokens` |
| `search_hybrid_tokens` (with BM25) | `encodings`, `mask`, `query` string[B], the parameters of \
`search_tokens`, `top_k` int32[B] | as `search_tokens`, and `lexical_scores` float[B, ?] of `ordinals`; the \
best other documents by BM25, `other_ordinals` int32[B, K], `other_scores` float[B, K]; `allowed_documents` \
int32[B] |
| `explain` | as `search`, without `rescore` | as `search`, and `query_pieces` \
string[B, L], `retrieved` bool[B, K, L], `token_scores` float[B, K, L], `document_pieces` string[B, K, L], \
`starts`, `limits` int32[B, K, L], `weights` float[B, L] |
| `encode_query` | `query` string[B] | `encodings` float[B, L, D], `mask` bool[B, L], `ids` int32[B, L], \
`pieces` string[B, L]; if pieces are counted, `idf` float[B, L] |
| `encode_document` | `document` string[B] | `encodings`, `mask` and `ids` as `encode_query`, `truncated` \
bool[B] |
| `look_up` | `documents` int32[B, K], `tokens` int32[B, K, L]: ordinals, -1 for none; `scores` \
float[B, K, L] of the tokens | the outputs of `explain` for documents and tokens; with snippets instead of \
texts, `snippets` string[B, K], around the tokens with the best scores; `encoder`, `quantizer`, `partition` \
string[B], fingerprints of the model's origin |
| `score` | `query` string[B], `documents` string[B, ?] | `scores` float[B, ?], exact f_ColBERT, `truncated` \
bool[B, ?] |

*Parameters* have one value per query, or one for all. If the server supports defaults of inputs, they may be
left out, and the model's default is used:

| input | | range |
|---|---|---|
| `k_prime` | int32[B] | document tokens that each query token retrieves: 1 or more; all if there are fewer |
| `top_k` | int32[B] | documents to return: 1 to 10,000 |
| `leaves` | int32[B] | leaves of the index to probe: 0 (the default of the index) or more |
| `imputation` | string[B] | `top_k_prime`, `zero`, `constant` or `none` |
| `constant` | float[B] | any finite number; used only with `constant` |
| `languages` | string[B] | only documents in one of these, separated by commas; "" for all |
| `rescore` | int32[B] | candidates ranked again by exact f_ColBERT: 0 (none), or `top_k` to 10,000 if \
the index stores vectors |
| `filter` | string[B] | conditions on fields that documents must meet, such as `year>=2020;source=wiki`; \
"" for none; see `filters.py` |
| `min_score` | float[B] | documents with a lower score are not returned |
| `token_weights` | string[B] | `none`: equal weights of query tokens; `idf`: by the rarity of their pieces |
| `alpha` | float[B] | weight of BM25, from 0 (XTR) to 1 (BM25), if the model has it |
| `fusion` | string[B] | `weighted` or `rrf`; see `xtr_tf/scoring/fusion.py` |

**Joining and splitting.** The first dimension of every input and output is the queries. Requests whose inputs
have the same other dimensions may be joined along the first, and the answer may be split again. Each query
gets the same result as alone. Only the other dimensions may be larger, for the longest query or the largest
`top_k`, and have padding there.

Results are in descending order of score. K is the largest `top_k`. If a query requested fewer documents, or
fewer were found, the rest is "" and -inf. A query longer than the tokenizer's limit is truncated, and so is a
document, which `truncated` shows. Bytes that are not UTF-8 count as U+FFFD. A blank query is refused, except
by `serving_default`, which finds nothing for it: servers join requests of several callers into one batch, and
the mistake of one caller must not make the others fail. Where `retrieved` is false, `token_scores` has the
imputed similarity, and the piece is "" with the span -1 to -1. Spans count characters of `"{title} {text}"`.
Among token hits, padding has the document -1 and the score -inf.

With an `alpha` above 0, candidates are those of XTR and of BM25, and `scores` are their fused scores. For
every document, `xtr_scores` has f_XTR', with m_i for all tokens if none was retrieved, or f_ColBERT if it was
rescored. `lexical_scores` has BM25. If `alpha` is 0, BM25 is not looked up, and it is 0.

A merge of partitions gets both from `search_hybrid_tokens`: BM25 of all documents with hits, and the `top_k`
best of the other documents, padded with the ordinal -1 and the score 0. In a partition, BM25 has the
statistics of the whole collection.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from xtr_tf.retriever.explain import SearchFunction, describe_documents, explain_signature
from xtr_tf.retriever.hits import describe_hits
from xtr_tf.retriever.hybrid import HybridDocuments
from xtr_tf.retriever.look_up import look_up_signature
from xtr_tf.retriever.request import (
    QUERY,
    SearchRequest,
    has_no_text,
    require,
    require_text,
    with_parameters,
)
from xtr_tf.retriever.retriever import EncodedTexts, Retriever
from xtr_tf.retriever.term_candidates import find_term_candidates
from xtr_tf.retriever.tracing import traced_once
from xtr_tf.scoring.maxsim import maxsim_scores, score_in_chunks
from xtr_tf.scoring.token_hits import TokenHits


def build_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns all signatures.

    Args:
        retriever: The retriever.

    Returns:
        A `tf.function` by the name of each signature.
    """
    shared_search = _traced_once(retriever)
    return {
        **search_signatures(retriever, shared_search),
        **text_signatures(retriever),
        **explain_signature(retriever, shared_search),
        **look_up_signature(retriever),
    }


def _traced_once(retriever: Retriever) -> SearchFunction:
    """Returns `search_with_hits` with one trace for all signatures that take parameters."""
    weights = tf.TensorSpec([None, None], tf.float32)
    traced = traced_once(
        retriever.search_with_hits,
        [
            EncodedTexts(*_vector_specs(retriever), weights),
            SearchRequest(**SearchRequest.specs()),
            tf.TensorSpec([None], tf.string),
        ],
    )

    def search(
        queries: EncodedTexts, request: SearchRequest, texts: tf.Tensor | None = None
    ) -> tuple[TokenHits, HybridDocuments]:
        weights = tf.ones_like(queries.mask, tf.float32) if queries.weights is None else queries.weights
        texts = tf.fill(tf.shape(queries.mask)[:1], "") if texts is None else texts
        return traced(queries._replace(weights=weights), request, texts)

    return search


def _vector_specs(retriever: Retriever) -> tuple[tf.TensorSpec, tf.TensorSpec]:
    """Returns the specs of encoded queries: vectors and mask."""
    return (
        tf.TensorSpec([None, None, retriever.dim], tf.float32, name="encodings"),
        tf.TensorSpec([None, None], tf.bool, name="mask"),
    )


def search_signatures(retriever: Retriever, shared_search: SearchFunction) -> dict[str, Any]:
    """Returns `serving_default` and all signatures whose names begin with `search`.

    Args:
        retriever: The retriever.
        shared_search: Its search, as traced for several signatures.

    Returns:
        A `tf.function` by the name of each signature.
    """
    defaults = retriever.defaults
    default_request = SearchRequest.default(defaults)._replace(languages=None, filter=None)
    vectors = _vector_specs(retriever)
    token_hits = traced_once(
        lambda encodings, mask, request: _token_hits(retriever, EncodedTexts(encodings, mask), request),
        [*vectors, SearchRequest(**SearchRequest.specs())],
    )

    @tf.function(input_signature=[QUERY], autograph=False)
    def serving_default(query: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = retriever.query_ids(query)
        encoded = retriever.encode(ids)
        # Servers join the requests of several callers. A query without text finds nothing, and does not fail.
        encoded = encoded._replace(mask=encoded.mask & ~has_no_text(ids)[:, tf.newaxis])
        if defaults.token_weights != "none":
            encoded = retriever.weigh(encoded, ids, default_request.token_weights)
        ranked = retriever.search(encoded, default_request, query if defaults.alpha else None)
        shape = [None, defaults.top_k]
        return {
            "document_ids": tf.ensure_shape(retriever.documents.look_up_ids(ranked.ordinals), shape),
            "scores": tf.ensure_shape(ranked.scores, shape),
        }

    def search(query: tf.Tensor, request: SearchRequest) -> dict[str, tf.Tensor]:
        request = request.checked(tf.size(query))
        ids = require_text(retriever.query_ids(query), "query")
        encoded = retriever.weigh(retriever.encode(ids), ids, request.token_weights)
        hits, ranked = shared_search(encoded, request, query)
        return describe_documents(retriever, ranked, hits, encoded.mask)

    def search_vectors(
        encodings: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor, request: SearchRequest
    ) -> dict[str, tf.Tensor]:
        request = request.checked(tf.shape(mask)[0])
        encoded = _checked_weights(_checked_vectors(encodings, mask), weights)
        hits, ranked = shared_search(encoded, request)
        return describe_documents(retriever, ranked, hits, encoded.mask, of_text=False)

    def search_tokens(query: tf.Tensor, request: SearchRequest) -> dict[str, tf.Tensor]:
        request = request.checked(tf.size(query))
        ids = require_text(retriever.query_ids(query), "query")
        encoded = retriever.encode(ids)
        return {
            **token_hits(encoded.encodings, encoded.mask, request),
            **_piece_statistics(retriever, ids),
        }

    def search_vectors_tokens(
        encodings: tf.Tensor, mask: tf.Tensor, request: SearchRequest
    ) -> dict[str, tf.Tensor]:
        request = request.checked(tf.shape(mask)[0])
        encoded = _checked_vectors(encodings, mask)
        return token_hits(encoded.encodings, encoded.mask, request)

    def search_hybrid_tokens(
        encodings: tf.Tensor, mask: tf.Tensor, query: tf.Tensor, request: SearchRequest
    ) -> dict[str, tf.Tensor]:
        assert retriever.lexical is not None
        found = search_vectors_tokens(encodings, mask, request)
        each = require(
            tf.size(query) == tf.shape(mask)[0],
            "`query` must have one text for every row of `mask`. Received: texts",
            tf.size(query),
        )
        with tf.control_dependencies([each]):
            query = tf.identity(query)
        terms = find_term_candidates(
            retriever.lexical, retriever.documents, query, found["ordinals"], request
        )
        return {**found, **terms._asdict()}

    hits_only = ("k_prime", "leaves", "languages", "filter")
    # Vectors have no text, so there is no BM25, and weights are given by the caller, if at all.
    of_text = ("token_weights", "alpha", "fusion")
    of_vectors = [name for name in SearchRequest._fields if name not in of_text]
    weights = (tf.TensorSpec([None, None], tf.float32, name="weights"), tf.constant([[1.0]]))
    hybrid_tokens = {
        "search_hybrid_tokens": with_parameters(
            search_hybrid_tokens, [*vectors, QUERY], defaults, [*hits_only, "top_k"]
        )
    }
    return {
        **(hybrid_tokens if retriever.lexical is not None else {}),
        "serving_default": serving_default,
        "search": with_parameters(search, [QUERY], defaults),
        "search_vectors": with_parameters(
            search_vectors,
            vectors,
            dataclasses.replace(defaults, token_weights="none", alpha=0.0),
            of_vectors,
            optional=[weights],
        ),
        "search_tokens": with_parameters(search_tokens, [QUERY], defaults, hits_only),
        "search_vectors_tokens": with_parameters(search_vectors_tokens, vectors, defaults, hits_only),
    }


def _checked_vectors(encodings: tf.Tensor, mask: tf.Tensor) -> EncodedTexts:
    agree = require(
        tf.reduce_all(tf.shape(encodings)[:2] == tf.shape(mask)),
        "`mask` must have the first two dimensions of `encodings`. Received: mask of shape",
        tf.shape(mask),
    )
    with tf.control_dependencies([agree]):
        without_tokens = ~tf.reduce_any(mask, axis=1)
    marked = require(
        ~tf.reduce_any(without_tokens),
        "`mask` must mark at least one token of every query. Received: none at position",
        tf.where(without_tokens)[:, 0],
    )
    with tf.control_dependencies([marked]):
        return EncodedTexts(tf.identity(encodings), tf.identity(mask))


def _checked_weights(queries: EncodedTexts, weights: tf.Tensor) -> EncodedTexts:
    """Returns the queries with the weights of the caller, whose dimensions may be 1 for equal values."""
    shape, given = tf.shape(queries.mask), tf.shape(weights)
    fits = require(
        tf.reduce_all((given == 1) | (given == shape)),
        "`weights` must have the dimensions of `mask`, or 1 instead. Received: weights of shape",
        given,
    )
    with tf.control_dependencies([fits]):
        weights = tf.where(queries.mask, weights, 0.0)
    sound = tf.reduce_all(tf.math.is_finite(weights) & (weights >= 0), axis=1)
    counts = require(
        tf.reduce_all(sound & (tf.reduce_sum(weights, axis=1) > 0)),
        "`weights` must be finite, not negative, and not all 0 for the tokens of a query. Received:",
        weights,
    )
    with tf.control_dependencies([counts]):
        return queries._replace(weights=tf.identity(weights))


def _piece_statistics(retriever: Retriever, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Returns what several indexes must add up before their token hits can be weighted like those of one."""
    if retriever.piece_weights is None:
        return {}
    documents, background = retriever.piece_weights.look_up(ids.to_tensor(retriever.tokenizer.pad_id))
    mask = tf.sequence_mask(ids.row_lengths())
    return {
        "piece_documents": tf.where(mask, documents, 0),
        "piece_background": tf.where(mask, background, 0.0),
        "num_documents": tf.fill([ids.nrows()], retriever.documents.num_documents),
    }


def _token_hits(retriever: Retriever, queries: EncodedTexts, request: SearchRequest) -> dict[str, tf.Tensor]:
    hits = retriever.find_tokens(queries, request)
    return describe_hits(hits, queries.mask, retriever.owners.look_up, retriever.documents)


def text_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `encode_query`, `encode_document` and `score`.

    Args:
        retriever: The retriever.

    Returns:
        A `tf.function` by the name of each signature.
    """

    @tf.function(input_signature=[QUERY], autograph=False)
    def encode_query(query: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = retriever.query_ids(query)
        return {**_padded(retriever, ids, retriever.encode(ids)), **_pieces(retriever, ids)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="document")], autograph=False)
    def encode_document(document: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, truncated = retriever.document_ids(document)
        return {**_padded(retriever, ids, retriever.encode_documents(ids)), "truncated": truncated}

    @tf.function(
        input_signature=[QUERY, tf.TensorSpec([None, None], tf.string, name="documents")], autograph=False
    )
    def score(query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
        return _score(retriever, query, documents)

    return {"encode_query": encode_query, "encode_document": encode_document, "score": score}


def _padded(retriever: Retriever, ids: tf.RaggedTensor, encoded: EncodedTexts) -> dict[str, tf.Tensor]:
    padded = ids.to_tensor(retriever.tokenizer.pad_id)
    return {"encodings": encoded.encodings, "mask": encoded.mask, "ids": padded}


def _pieces(retriever: Retriever, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Returns the pieces of queries, and their idf weights."""
    pieces = ids.with_values(retriever.tokenizer.pieces(ids.values)).to_tensor("")
    if retriever.piece_weights is None:
        return {"pieces": pieces}
    return {"pieces": pieces, "idf": ids.with_values(retriever.piece_weights.idf(ids.values)).to_tensor(0.0)}


def _score(retriever: Retriever, query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns f_ColBERT of `[queries]` for their `[queries, documents]`; `-inf` for those without text."""
    queries = retriever.encode(require_text(retriever.query_ids(query), "query"))
    one_row_each = require(
        tf.shape(documents)[0] == tf.shape(query)[0],
        "`documents` must have one row of documents for every query. Received: shape",
        tf.shape(documents),
    )
    with tf.control_dependencies([one_row_each]):
        documents = tf.identity(documents)
    per_query = tf.shape(documents)[1]
    ids, truncated = retriever.document_ids(tf.reshape(documents, [-1]))

    def score_chunk(positions: tf.Tensor) -> tf.Tensor:
        encoded = retriever.encode_documents(tf.gather(ids, positions))
        query_of_document = positions // per_query
        return maxsim_scores(
            tf.gather(queries.encodings, query_of_document),
            tf.gather(queries.mask, query_of_document),
            encoded.encodings,
            encoded.mask,
        )

    scores = score_in_chunks(tf.size(documents), score_chunk)
    scores = tf.where(has_no_text(ids), -float("inf"), scores)
    shape = tf.shape(documents)
    return {"scores": tf.reshape(scores, shape), "truncated": tf.reshape(truncated, shape)}
