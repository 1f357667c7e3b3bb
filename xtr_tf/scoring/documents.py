"""From retrieved tokens to ranked documents: f_XTR' in stock TensorFlow ops.

    score(D) = 1/n * sum_i ( max_j P_ij over the retrieved tokens j of D, or m_i where there is none )

computed as `sum_i m_i + sum over retrieved (i, D) of (max_j P_ij - m_i)`, so that a document costs
only what it retrieved. Knows nothing of text, of document ids or of how tokens were found.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), "Missing similarity imputation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from xtr_tf.config.retrieval import IMPUTATIONS
from xtr_tf.scoring.token_hits import TokenHits

# Measured: with 14 or 32 query tokens and k' = 1,000 or 40,000, a cell for every document wins up
# to about 20 documents a hit, distinct documents beyond.
_DOCUMENTS_PER_HIT = 20
_QUERIES_AT_ONCE = 4


class RankedDocuments(NamedTuple):
    """The best documents of each query.

    Attributes:
        ordinals: `[queries, top_k]` int32, -1 where fewer documents were found.
        scores: `[queries, top_k]` float32, descending, `-inf` where fewer were found; never NaN.
            Equal scores are ranked by document order.
    """

    ordinals: tf.Tensor
    scores: tf.Tensor


def flatten_queries(encodings: tf.Tensor, query_mask: tf.Tensor) -> tf.Tensor:
    """Takes the valid query tokens of a batch as rows: what a `TokenSearcher` is given.

    Args:
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) where there is a token.

    Returns:
        `[rows, dim]`, in the order of `tf.where(query_mask)`.
    """
    return tf.boolean_mask(encodings, tf.cast(query_mask, tf.bool))


def score_documents(
    hits: TokenHits,
    query_mask: tf.Tensor,
    document_of_token: tf.Tensor,
    num_documents: int,
    top_k: tf.Tensor,
    imputation: tf.Tensor | str = "top_k_prime",
    constant: tf.Tensor | float = 0.0,
    allowed: tf.Tensor | None = None,
) -> RankedDocuments:
    """Ranks the documents that own at least one retrieved token.

    Args:
        hits: The rows of `flatten_queries`: valid query tokens alone.
        query_mask: `[queries, length]`, true (or 1) where there is a token.
        document_of_token: `[tokens]` int32 variable or tensor.
        num_documents: Documents in the index.
        top_k: Scalar int32, at least 1.
        imputation: One of `IMPUTATIONS`, a string scalar that may come with the request.
        constant: m_i under `constant`.
        allowed: `[num_documents]` bool; documents that may be returned, all of them if None.

    Returns:
        Ordinals and scores, `[queries, top_k]`.

    Raises:
        tf.errors.InvalidArgumentError: For an unknown imputation or `top_k` below 1; inside a
            graph when it runs.
    """
    query_mask = tf.cast(query_mask, tf.bool)
    imputation = tf.convert_to_tensor(imputation)
    top_k = tf.convert_to_tensor(top_k, tf.int32)
    checks = [
        tf.debugging.Assert(top_k >= 1, ["`top_k` must be at least 1. Received:", top_k]),
        tf.debugging.Assert(
            tf.reduce_any(imputation == tf.constant(IMPUTATIONS)),
            [f"`imputation` must be one of {', '.join(IMPUTATIONS)}. Received:", imputation],
        ),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        missing = missing_similarities(hits.cutoffs, imputation, constant)
    documents = tf.gather(document_of_token, hits.token_ids)
    scores = hits.scores
    if allowed is not None:
        scores = tf.where(tf.gather(allowed, documents), scores, -float("inf"))

    def rank_query(documents: tf.Tensor, scores: tf.Tensor, missing: tf.Tensor) -> RankedDocuments:
        gains = scores - missing[:, tf.newaxis]
        return _rank_query(documents, gains, missing, num_documents, imputation == "none", top_k)

    def rank_one() -> RankedDocuments:
        ordinals, ranked = rank_query(documents, scores, missing)
        return RankedDocuments(ordinals[tf.newaxis], ranked[tf.newaxis])

    def rank_each() -> RankedDocuments:
        ends = tf.cumsum(tf.reduce_sum(tf.cast(query_mask, tf.int32), axis=1))
        return tf.map_fn(
            lambda bounds: rank_query(*(tensor[slice(*bounds)] for tensor in (documents, scores, missing))),
            (tf.concat([[0], ends[:-1]], axis=0), ends),
            fn_output_signature=RankedDocuments(
                tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)
            ),
            parallel_iterations=_QUERIES_AT_ONCE,
        )

    # The loop costs as much as the scoring of a small query, so the commonest batch goes without.
    return tf.cond(tf.shape(query_mask)[0] == 1, rank_one, rank_each)


def _rank_query(
    documents: tf.Tensor,
    gains: tf.Tensor,
    missing: tf.Tensor,
    num_documents: int,
    only_retrieved: tf.Tensor,
    top_k: tf.Tensor,
) -> RankedDocuments:
    """Ranks the documents of one query.

    Args:
        documents: `[rows, columns]` int32, the documents of the hits.
        gains: `[rows, columns]` float32, what each hit has above m_i; `-inf` counts as no hit.
        missing: `[rows]` float32, m_i.
        num_documents: Documents in the index.
        only_retrieved: Scalar bool, whether the mean is over retrieved similarities alone.
        top_k: Scalar int32.

    Returns:
        Ordinals and scores, `[top_k]`.
    """

    def rank_all() -> RankedDocuments:
        scores = _score_candidates(documents, num_documents, gains, missing, only_retrieved)
        # Of equal scores, `top_k` takes the one that comes first, and so the first document.
        found = tf.math.top_k(scores, tf.minimum(top_k, num_documents))
        return _pad(found.indices, found.values, top_k)

    def rank_distinct() -> RankedDocuments:
        distinct, places = tf.unique(tf.reshape(documents, [-1]))
        places = tf.reshape(places, tf.shape(documents))
        scores = _score_candidates(places, tf.size(distinct), gains, missing, only_retrieved)
        return _top_documents(distinct, scores, top_k)

    # A cell for every document is fastest while there are few documents a hit; beyond that, time
    # and memory must not depend on the size of the corpus.
    dense = num_documents <= _DOCUMENTS_PER_HIT * tf.shape(documents)[1]
    return tf.cond(dense, rank_all, rank_distinct)


def _score_candidates(
    places: tf.Tensor,
    count: tf.Tensor | int,
    gains: tf.Tensor,
    missing: tf.Tensor,
    only_retrieved: tf.Tensor,
) -> tf.Tensor:
    """Scores of `count` candidates, `-inf` where nothing was retrieved; `places` says whose the hits are."""
    rows = tf.shape(places)[0]
    segments = tf.range(rows)[:, tf.newaxis] * count + places
    best = tf.reshape(tf.math.unsorted_segment_max(gains, segments, rows * count), [rows, count])
    # Where there was no hit, `best` is the lowest number there is: finite, so that times 0 is 0.
    retrieved = tf.cast(best > best.dtype.min, best.dtype)
    sums = tf.reduce_sum(missing) + tf.reduce_sum(best * retrieved, axis=0)
    found = tf.reduce_sum(retrieved, axis=0)
    means = tf.math.divide_no_nan(sums, tf.where(only_retrieved, found, tf.cast(rows, tf.float32)))
    return tf.where(found > 0, means, -float("inf"))


def rescore_documents(
    ranked: RankedDocuments,
    encodings: tf.Tensor,
    query_mask: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
    document_offsets: tf.Tensor,
) -> RankedDocuments:
    """Ranks candidates anew by exact f_ColBERT, where token vectors are kept.

    Args:
        ranked: Candidates, `[queries, candidates]`.
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) where there is a token.
        vectors_of: Gives the vectors of `[any]` token ordinals, `[any, dim]` float32.
        document_offsets: `[documents + 1]` integers; tokens of document `i` are `[i]` to `[i + 1]`.

    Returns:
        The same documents in their new order, `[queries, candidates]`.
    """

    def rescore_query(query: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> RankedDocuments:
        ordinals, encoding, mask = query
        present = tf.maximum(ordinals, 0)
        starts, ends = tf.gather(document_offsets, present), tf.gather(document_offsets, present + 1)
        tokens = tf.ragged.range(starts, tf.where(ordinals >= 0, ends, starts))
        kept = vectors_of(tokens.flat_values)
        similarities = tf.matmul(kept, tf.boolean_mask(encoding, mask), transpose_b=True)
        best = tf.math.unsorted_segment_max(similarities, tokens.value_rowids(), tf.size(ordinals))
        scores = tf.math.divide_no_nan(tf.reduce_sum(best, axis=1), tf.cast(tf.shape(best)[1], tf.float32))
        scores = tf.where(tokens.row_lengths() > 0, scores, -float("inf"))
        return _top_documents(ordinals, scores, tf.size(ordinals))

    return tf.map_fn(
        rescore_query,
        (ranked.ordinals, encodings, tf.cast(query_mask, tf.bool)),
        fn_output_signature=RankedDocuments(
            tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)
        ),
        parallel_iterations=_QUERIES_AT_ONCE,
    )


def missing_similarities(cutoffs: tf.Tensor, imputation: tf.Tensor, constant: tf.Tensor | float) -> tf.Tensor:
    """The similarity that stands in for what a row did not retrieve, `[rows]` float32; 0 under `none`."""
    constant = tf.convert_to_tensor(constant, tf.float32)
    other = tf.where(imputation == "constant", constant, 0.0)
    return tf.where(imputation == "top_k_prime", cutoffs, other)


def _top_documents(candidates: tf.Tensor, scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    # As integers, scores keep their order in the high half and leave the low half to the document.
    bits = tf.bitcast(scores, tf.int32)
    ordered = tf.where(bits >= 0, bits, tf.bitwise.bitwise_xor(bits, tf.int32.max))
    keys = tf.cast(ordered, tf.int64) * (1 << 32) - tf.cast(candidates, tf.int64)
    best = tf.math.top_k(keys, tf.minimum(top_k, tf.size(keys))).indices
    return _pad(tf.gather(candidates, best), tf.gather(scores, best), top_k)


def _pad(ordinals: tf.Tensor, scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    padding = [[0, top_k - tf.size(scores)]]
    return RankedDocuments(
        ordinals=tf.pad(tf.where(scores > -float("inf"), ordinals, -1), padding, constant_values=-1),
        scores=tf.pad(scores, padding, constant_values=-float("inf")),
    )
