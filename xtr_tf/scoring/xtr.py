"""f_XTR': from retrieved tokens to ranked documents, in stock TensorFlow ops.

    f_XTR'(Q, D) = 1/n * sum_i ( max_j P_ij over the retrieved tokens j of D, or m_i where there is none )

It is computed as `sum_i m_i + sum over retrieved (i, D) of (max_j P_ij - m_i)`, so that the cost of a
document depends only on its hits. With weights, every term of a sum is multiplied by w_i, and the divisor is
the sum of w_i. `TokenHits.missing_similarities` computes m_i. Knows nothing about text, document ids or how
tokens were found. `reference.py` is its NumPy twin.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), "Missing similarity imputation".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from xtr_tf.config.retrieval import IMPUTATIONS
from xtr_tf.scoring.ranking import ONE_RANKING, RankedDocuments, rank_all, rank_candidates
from xtr_tf.scoring.token_hits import TokenHits
from xtr_tf.scoring.token_owners import DocumentOf

# Measured with 14 or 32 query tokens and k' = 1,000 or 40,000: a slot for every document is faster up to
# about 20 documents per hit. Beyond that, distinct documents are faster.
_DOCUMENTS_PER_HIT = 20
_QUERIES_AT_ONCE = 4


def flatten_queries(encodings: tf.Tensor, query_mask: tf.Tensor) -> tf.Tensor:
    """Returns the valid query tokens of a batch as rows, the input of a `TokenSearcher`.

    Args:
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) for tokens, false (or 0) for padding.

    Returns:
        `[rows, dim]`, in the order of `tf.where(query_mask)`.
    """
    # One op, where `tf.boolean_mask` needs ten.
    return tf.gather_nd(encodings, tf.where(query_mask))


def score_documents(
    hits: TokenHits,
    query_mask: tf.Tensor,
    document_of: DocumentOf,
    num_documents: int,
    top_k: tf.Tensor,
    imputation: tf.Tensor | str = "top_k_prime",
    constant: tf.Tensor | float = 0.0,
    weights: tf.Tensor | None = None,
) -> RankedDocuments:
    """Ranks the candidates: the documents with at least one retrieved token.

    Args:
        hits: Hits of the rows of `flatten_queries`, which are only valid query tokens. A score of `-inf`
            counts as no hit. So documents can be excluded without changing the cut-offs.
        query_mask: `[queries, length]`, true (or 1) for tokens, false (or 0) for padding; at least one query.
        document_of: Function from token ordinals, in any shape, to the ordinals of their documents.
        num_documents: Number of documents in the index.
        top_k: int32, at least 1. This argument and the following two are `[queries]`, or one value for all.
        imputation: One of `IMPUTATIONS`.
        constant: m_i under `constant`.
        weights: `[rows]` float32, not negative, the weight of each query token; equal weights if None.

    Returns:
        Ordinals and scores, `[queries, max(top_k)]`; -1 and `-inf` beyond the `top_k` of a query.

    Raises:
        tf.errors.InvalidArgumentError: If the imputation is unknown or `top_k` is below 1. Inside a graph, it
            is raised when the graph runs.
    """
    top_k = _vector(top_k, tf.int32)
    check = tf.debugging.Assert(
        tf.reduce_all(top_k >= 1), ["`top_k` must be at least 1. Received:", top_k], summarize=8
    )
    with tf.control_dependencies([] if check is None else [check]):
        columns = tf.reduce_max(top_k)
    ranked = map_queries(
        lambda query: _rank_query(query, num_documents, columns),
        hits,
        query_mask,
        document_of,
        imputation,
        constant,
        weights,
        returns=ONE_RANKING,
    )
    return ranked if top_k.shape == [1] else ranked.cut(top_k)


class QueryHits(NamedTuple):
    """The hits of one query.

    Attributes:
        documents: `[rows, columns]` int32, the documents of the hits.
        scores: `[rows, columns]` float32, `-inf` where there is no hit.
        missing: `[rows]` float32, m_i.
        weights: `[rows]` float32, w_i.
        only_retrieved: Scalar bool, whether the mean is over retrieved similarities only.
    """

    documents: tf.Tensor
    scores: tf.Tensor
    missing: tf.Tensor
    weights: tf.Tensor
    only_retrieved: tf.Tensor


def map_queries(
    function: Callable[..., Any],
    hits: TokenHits,
    query_mask: tf.Tensor,
    document_of: DocumentOf,
    imputation: tf.Tensor | str,
    constant: tf.Tensor | float,
    weights: tf.Tensor | None,
    returns: Any,
    values: Sequence[tf.Tensor] = (),
) -> Any:
    """Calls a function with the hits of each query, and stacks the results.

    Args:
        function: Function of a `QueryHits` and one row of each of `values`.
        hits: As for `score_documents`.
        query_mask: As for `score_documents`.
        document_of: As for `score_documents`.
        imputation: As for `score_documents`.
        constant: As for `score_documents`.
        weights: As for `score_documents`.
        returns: Specs of the results of the function.
        values: Further tensors, `[queries, ...]`.

    Returns:
        The results, stacked along a first dimension.

    Raises:
        tf.errors.InvalidArgumentError: If the imputation is unknown. Inside a graph, it is raised when the
            graph runs.
    """
    query_mask = tf.cast(query_mask, tf.bool)
    imputation, constant = _vector(imputation, tf.string), _vector(constant, tf.float32)
    check = tf.debugging.Assert(
        tf.reduce_all(tf.reduce_any(imputation[:, tf.newaxis] == tf.constant(IMPUTATIONS), axis=1)),
        [f"`imputation` must be one of {', '.join(IMPUTATIONS)}. Received:", imputation],
        summarize=8,
    )
    with tf.control_dependencies([] if check is None else [check]):
        only_retrieved = imputation == "none"
    documents = document_of(hits.token_ids)
    weights = tf.ones_like(hits.cutoffs) if weights is None else weights

    def call_once() -> Any:
        missing = hits.missing_similarities(imputation[:1], constant[:1])
        of_query = QueryHits(documents, hits.scores, missing, weights, only_retrieved[0])
        result = function(of_query, *(value[0] for value in values))
        return tf.nest.map_structure(lambda part: part[tf.newaxis], result)

    def call_each() -> Any:
        missing = hits.missing_similarities(of_rows(imputation, query_mask), of_rows(constant, query_mask))
        rows_of_all = (documents, hits.scores, missing, weights)
        lengths = tf.reduce_sum(tf.cast(query_mask, tf.int32), axis=1)
        ends = tf.cumsum(lengths)

        def call(query: tuple[tf.Tensor, ...]) -> Any:
            start, end, only_retrieved, *row = query
            of_query = [part[start:end] for part in rows_of_all]
            return function(QueryHits._make([*of_query, only_retrieved]), *row)

        return tf.map_fn(
            call,
            (ends - lengths, ends, tf.broadcast_to(only_retrieved, tf.shape(ends)), *values),
            fn_output_signature=returns,
            parallel_iterations=None if tf.executing_eagerly() else _QUERIES_AT_ONCE,
        )

    # The loop costs as much as scoring a small query. A batch of one query, the most common, runs without it.
    return tf.cond(tf.shape(query_mask)[0] == 1, call_once, call_each)


def of_rows(values: tf.Tensor, query_mask: tf.Tensor) -> tf.Tensor:
    """Repeats the value of each query for its tokens.

    Args:
        values: `[queries]`, or `[1]` for all.
        query_mask: `[queries, length]` bool.

    Returns:
        `[rows]`, in the order of `flatten_queries`. If the shape of `values` is `[1]` when the graph is
        built, `values` itself.
    """
    if values.shape == [1]:
        return values
    return tf.gather(tf.broadcast_to(values, tf.shape(query_mask)[:1]), tf.where(query_mask)[:, 0])


def _vector(values: tf.Tensor | str | float, dtype: tf.DType) -> tf.Tensor:
    return tf.reshape(tf.convert_to_tensor(values, dtype), [-1])


def _rank_query(query: QueryHits, num_documents: int, top_k: tf.Tensor) -> RankedDocuments:
    """Ranks the documents of one query. Returns ordinals and scores, `[top_k]`."""

    def score_all() -> RankedDocuments:
        return rank_all(_score_candidates(query, query.documents, num_documents), top_k)

    def score_distinct() -> RankedDocuments:
        return rank_candidates(*_distinct_candidates(query), top_k)

    return tf.cond(_is_dense(query, num_documents), score_all, score_distinct)


def score_all_documents(query: QueryHits, num_documents: int) -> tf.Tensor:
    """Returns f_XTR' of one query for every document.

    Args:
        query: The hits of one query, with their documents.
        num_documents: Number of documents in the corpus.

    Returns:
        `[documents]` float32, `-inf` where nothing was retrieved.
    """

    def score_distinct() -> tf.Tensor:
        candidates, scores = _distinct_candidates(query)
        nothing = tf.fill([num_documents], -float("inf"))
        return tf.tensor_scatter_nd_update(nothing, candidates[:, tf.newaxis], scores)

    return tf.cond(
        _is_dense(query, num_documents),
        lambda: _score_candidates(query, query.documents, num_documents),
        score_distinct,
    )


def score_of_nothing(query: QueryHits) -> tf.Tensor:
    """Returns f_XTR' of a document of which nothing was retrieved.

    Args:
        query: The hits of one query.

    Returns:
        Scalar float32, the mean of m_i by weight; 0 if the weights add up to 0.
    """
    return tf.math.divide_no_nan(tf.reduce_sum(query.missing * query.weights), tf.reduce_sum(query.weights))


def _is_dense(query: QueryHits, num_documents: int) -> tf.Tensor:
    # A slot for every document is fastest if there are few documents per hit. If there are more, time and
    # memory must not depend on the size of the corpus.
    return num_documents <= _DOCUMENTS_PER_HIT * tf.shape(query.documents)[1]


def _distinct_candidates(query: QueryHits) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distinct ordinals of the documents with hits, and their scores."""
    candidates, candidate_of_hit = tf.unique(tf.reshape(query.documents, [-1]))
    candidate_of_hit = tf.reshape(candidate_of_hit, tf.shape(query.documents))
    return candidates, _score_candidates(query, candidate_of_hit, tf.size(candidates))


def _score_candidates(
    query: QueryHits, candidate_of_hit: tf.Tensor, num_candidates: tf.Tensor | int
) -> tf.Tensor:
    """Returns f_XTR' of candidates, `[num_candidates]`, `-inf` where nothing was retrieved.

    Args:
        query: The hits.
        candidate_of_hit: `[rows, columns]` int32, below `num_candidates`.
        num_candidates: Number of candidates to score.
    """
    missing, weights = query.missing, query.weights
    gains = query.scores - missing[:, tf.newaxis]
    rows = tf.shape(candidate_of_hit)[0]
    segments = tf.range(rows)[:, tf.newaxis] * num_candidates + candidate_of_hit
    best = tf.math.unsorted_segment_max(gains, segments, rows * num_candidates)
    best = tf.reshape(best, [rows, num_candidates])
    # Without a hit, `best` is the lowest float. It is finite, so that its product with 0 is 0.
    retrieved = tf.where(best > best.dtype.min, weights[:, tf.newaxis], 0.0)
    sums = tf.reduce_sum(missing * weights) + tf.reduce_sum(best * retrieved, axis=0)
    counted = tf.reduce_sum(retrieved, axis=0)
    means = tf.math.divide_no_nan(sums, tf.where(query.only_retrieved, counted, tf.reduce_sum(weights)))
    return tf.where(counted > 0, means, -float("inf"))
