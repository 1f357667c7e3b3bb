"""From retrieved tokens to ranked documents: f_XTR' in stock TensorFlow ops.

    score(D) = 1/n * sum_i ( max_j P_ij over the retrieved tokens j of D, or m_i where there is none )

computed as `sum_i m_i + sum over retrieved (i, D) of (max_j P_ij - m_i)`, so that a document costs
only what it retrieved. Knows nothing of text, of document ids or of how tokens were found.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), "Missing similarity imputation".
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.search.token_hits import TokenHits

#: How a query token counts for a document of which it retrieved nothing: with its cut-off score m_i,
#: with zero, with a constant, or (`none`) not at all: the mean is then over what was retrieved.
IMPUTATIONS = ("top_k_prime", "zero", "constant", "none")


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
        query_of_row = tf.cast(tf.where(query_mask)[:, 0], tf.int32)
        missing = missing_similarities(hits.cutoffs, imputation, constant)
    documents = tf.gather(document_of_token, hits.token_ids)
    valid = hits.valid
    if allowed is not None:
        valid &= tf.gather(allowed, documents)

    num_queries = tf.shape(query_mask)[0]
    rows = tf.shape(documents)[0]
    segments = tf.range(rows)[:, tf.newaxis] * num_documents + documents
    best = tf.math.unsorted_segment_max(hits.scores, tf.where(valid, segments, -1), rows * num_documents)
    best = tf.reshape(best, [rows, num_documents])
    retrieved = best > best.dtype.min
    gains = tf.where(retrieved, best - missing[:, tf.newaxis], 0.0)
    sums = tf.math.unsorted_segment_sum(gains, query_of_row, num_queries)
    sums += tf.math.unsorted_segment_sum(missing, query_of_row, num_queries)[:, tf.newaxis]
    counts = tf.math.unsorted_segment_sum(tf.cast(retrieved, tf.float32), query_of_row, num_queries)
    lengths = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1, keepdims=True)
    scores = tf.math.divide_no_nan(sums, tf.where(imputation == "none", counts, lengths))
    return _top_documents(tf.where(counts > 0, scores, -float("inf")), top_k)


def missing_similarities(cutoffs: tf.Tensor, imputation: tf.Tensor, constant: tf.Tensor | float) -> tf.Tensor:
    """The similarity that stands in for what a row did not retrieve, `[rows]` float32; 0 under `none`."""
    constant = tf.convert_to_tensor(constant, tf.float32)
    other = tf.where(imputation == "constant", constant, 0.0)
    return tf.where(imputation == "top_k_prime", cutoffs, other)


def _top_documents(scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    best = tf.math.top_k(scores, tf.minimum(top_k, tf.shape(scores)[1]))
    absent = best.values == -float("inf")
    padding = [[0, 0], [0, top_k - tf.shape(best.values)[1]]]
    return RankedDocuments(
        ordinals=tf.pad(tf.where(absent, -1, best.indices), padding, constant_values=-1),
        scores=tf.pad(best.values, padding, constant_values=-float("inf")),
    )
