"""The functions of an exported retriever. Their names, dtypes and shapes are public interface.

`B` queries, `K` documents (`top_k`), `L` tokens of the longest query, `D` vector width, `?` any number.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `query` string[B] | `document_ids` string[B, K], `scores` float[B, K] |
| `search` | `query` string[B], *parameters* | `document_ids`, `titles`, `languages` string[B, K], \
`scores` float[B, K]; where they are kept, `texts` (or snippets of them) and `fields` (JSON) string[B, K]; \
with BM25, \
`xtr_scores`, `lexical_scores` float[B, K] |
| `search_vectors` | `encodings` float[B, L, D], `mask` bool[B, L], `weights` float[B, L], *parameters* \
without `token_weights`, `alpha`, `fusion` | as `search`, without `xtr_scores`, `lexical_scores` |
| `search_tokens` | `query` string[B], `k_prime`, `leaves` int32[B], `languages`, `filter` string[B] | per \
query token (L) and hit (C): `mask` bool[B, L], `token_ids` int32[B, L, C], `scores` float[B, L, C], \
`cutoffs` float[B, L], `documents` int32[B, L, C], which counts in the query's own `document_ids`, `titles`, \
`languages` string[B, ?] (`ordinals` int32[B, ?]); where pieces are counted, `piece_documents` int32[B, L], \
`piece_background` float[B, L], `num_documents` int32[B] |
| `search_vectors_tokens` | `encodings`, `mask`, and the parameters of `search_tokens` | as `search_tokens` |
| `explain` | as `search`, without `rescore` | as `search`, and `query_pieces` \
string[B, L], `retrieved` bool[B, K, L], `token_scores` float[B, K, L], `document_pieces` string[B, K, L], \
`starts`, `limits` int32[B, K, L], `weights` float[B, L] |
| `encode_query` | `query` string[B] | `encodings` float[B, L, D], `mask` bool[B, L], `ids` int32[B, L], \
`pieces` string[B, L]; where pieces are counted, `idf` float[B, L] |
| `encode_document` | `document` string[B] | `encodings`, `mask` and `ids` as `encode_query`, `truncated` \
bool[B] |
| `look_up` | `documents` int32[B, K], `tokens` int32[B, K, L]: ordinals, -1 for none | of documents and \
tokens what `explain` has; `encoder`, `quantizer`, `partition` string[B], fingerprints of the model's origin |
| `score` | `query` string[B], `documents` string[B, ?] | `scores` float[B, ?], exact f_ColBERT, `truncated` \
bool[B, ?] |

*Parameters*, a value for each query or one for all, and the model's default where the server knows defaults
of inputs:

| input | | range |
|---|---|---|
| `k_prime` | int32[B] | tokens that each query token retrieves: 1 or more; more than there are means all |
| `top_k` | int32[B] | documents returned: 1 to 10,000 |
| `leaves` | int32[B] | leaves of the index to search: 0 (the index's own rule) or more |
| `imputation` | string[B] | `top_k_prime`, `zero`, `constant` or `none` |
| `constant` | float[B] | any finite number; counts only with `constant` |
| `languages` | string[B] | only documents in one of these, separated by commas; "" for all |
| `rescore` | int32[B] | candidates ranked again by exact f_ColBERT: 0 (none), or `top_k` to 10,000 where \
the index keeps vectors |
| `filter` | string[B] | conditions on fields that documents must meet, such as `year>=2020;source=wiki`; \
"" for none; see `filters.py` |
| `min_score` | float[B] | documents with a lower score are not returned |
| `token_weights` | string[B] | `none`: all query tokens count the same; `idf`: by how rare their pieces are |
| `alpha` | float[B] | what BM25 counts for, from 0 (XTR) to 1 (BM25), where the model has it |
| `fusion` | string[B] | `weighted` or `rrf`; see `xtr_tf/scoring/fusion.py` |

**Joining and splitting.** Every input and output has the queries first. Requests whose inputs agree in all
other dimensions may be joined along the first and the answer split again: each query gets what it would get
alone, only the other dimensions may be larger, as for the longest query or the largest `top_k`, and hold
padding there.

Results are in descending order of score. K is the largest `top_k`; where a query asked for fewer documents
or fewer were found, the rest is "" and -inf. A query longer than the tokenizer's limit is cut to it, and so
is a document, of which `truncated` tells; bytes that are not UTF-8 count as U+FFFD. A blank query is refused,
except by `serving_default`, which finds nothing for it: servers join requests of several callers to one
batch, and one caller's mistake must not fail the others. Where `retrieved` is false, `token_scores` holds
what was imputed and the piece is "" with the span -1 to -1; spans count characters of `"{title} {text}"`.
Among token hits, padding has the document -1 and the score -inf.

With an `alpha` above 0 candidates are those of XTR and of BM25, and `scores` are their fused scores. Of every
document `xtr_scores` has f_XTR', with m_i for all tokens where none was retrieved, or f_ColBERT where it was
rescored, and `lexical_scores` has BM25, which is not looked up, but 0, if `alpha` is 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from xtr_tf.retriever.explain import describe_documents, explain_signature
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
from xtr_tf.scoring.maxsim import maxsim_scores, score_in_chunks
from xtr_tf.scoring.token_hits import TokenHits


def build_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns a `tf.function` for every signature, by name."""
    return {
        **search_signatures(retriever),
        **text_signatures(retriever),
        **explain_signature(retriever),
        **look_up_signature(retriever),
    }


def search_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `serving_default`, `search`, `search_vectors`, `search_tokens` and `search_vectors_tokens`."""
    defaults = retriever.defaults
    default_request = SearchRequest.default(defaults)._replace(languages=None, filter=None)
    # Traced once for the signatures that take parameters.
    traced_search = tf.function(retriever.search_with_hits, autograph=False)

    def shared_search(*arguments: Any) -> tuple[TokenHits, HybridDocuments]:
        # Outside a graph every new length of a query would be traced.
        return (retriever.search_with_hits if tf.executing_eagerly() else traced_search)(*arguments)

    @tf.function(input_signature=[QUERY], autograph=False)
    def serving_default(query: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = retriever.query_ids(query)
        encoded = retriever.encode(ids)
        # Servers join the requests of several callers: a query without text finds nothing, and harms nobody.
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
        return {
            **_token_hits(retriever, retriever.encode(ids), request),
            **_piece_statistics(retriever, ids),
        }

    def search_vectors_tokens(
        encodings: tf.Tensor, mask: tf.Tensor, request: SearchRequest
    ) -> dict[str, tf.Tensor]:
        request = request.checked(tf.shape(mask)[0])
        return _token_hits(retriever, _checked_vectors(encodings, mask), request)

    vectors = [
        tf.TensorSpec([None, None, retriever.dim], tf.float32, name="encodings"),
        tf.TensorSpec([None, None], tf.bool, name="mask"),
    ]
    hits_only = ("k_prime", "leaves", "languages", "filter")
    # Vectors come without text: without BM25, and with weights of their own if at all.
    of_text = ("token_weights", "alpha", "fusion")
    of_vectors = [name for name in SearchRequest._fields if name not in of_text]
    weights = (tf.TensorSpec([None, None], tf.float32, name="weights"), tf.constant([[1.0]]))
    return {
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
    """The same queries with the caller's weights, whose dimensions may be 1 for all of them."""
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
    """What several indexes must add up before their token hits can be weighted as those of one."""
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
    return describe_hits(hits, queries.mask, retriever.document_of_token, retriever.documents)


def text_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `encode_query`, `encode_document` and `score`."""

    @tf.function(input_signature=[QUERY], autograph=False)
    def encode_query(query: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = retriever.query_ids(query)
        return {**_encode(retriever, ids), **_pieces(retriever, ids)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="document")], autograph=False)
    def encode_document(document: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, truncated = retriever.document_ids(document)
        return {**_encode(retriever, ids), "truncated": truncated}

    @tf.function(
        input_signature=[QUERY, tf.TensorSpec([None, None], tf.string, name="documents")], autograph=False
    )
    def score(query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
        return _score(retriever, query, documents)

    return {"encode_query": encode_query, "encode_document": encode_document, "score": score}


def _encode(retriever: Retriever, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    encoded = retriever.encode(ids)
    padded = ids.to_tensor(retriever.tokenizer.pad_id)
    return {"encodings": encoded.encodings, "mask": encoded.mask, "ids": padded}


def _pieces(retriever: Retriever, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """The pieces of queries, and what they count for by how rare they are."""
    pieces = ids.with_values(retriever.tokenizer.pieces(ids.values)).to_tensor("")
    if retriever.piece_weights is None:
        return {"pieces": pieces}
    return {"pieces": pieces, "idf": ids.with_values(retriever.piece_weights.idf(ids.values)).to_tensor(0.0)}


def _score(retriever: Retriever, query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
    """f_ColBERT of `[queries]` with each of its `[queries, documents]`; `-inf` for documents without text."""
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
        encoded = retriever.encode(tf.gather(ids, positions))
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
