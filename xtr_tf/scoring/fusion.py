"""Hybrid scores: f_XTR' and BM25 of the same documents combined into one score, in stock TensorFlow ops.

`weighted` is a mean on the scale of f_XTR'. With `alpha` 0 it is f_XTR' itself, with 1 it ranks as BM25 does:

    (1 - alpha) * f_XTR' + alpha * (floor + scale * BM25)

The floor is f_XTR' of a document of which nothing was retrieved. So a document without a term of the query
counts as one without a retrieved token. The scale is different for each query. It is the standard deviation
of its 100 best f_XTR' scores, divided by that of its 100 best BM25 scores. So each counts by what separates
good documents from the next best ones, independently of the size of the corpus.

`rrf` adds `(1 - alpha) / (60 + rank)` and `alpha / (60 + rank)`, with ranks from 1 among the best 1,000 of
each ([Cormack et al., 2009](https://doi.org/10.1145/1571941.1572114)). Knows nothing about where scores come
from. `fusion_reference.py` is its NumPy twin.
"""

from __future__ import annotations

import tensorflow as tf

#: The constant added to ranks, and the number of documents that have a rank.
RRF_CONSTANT, RRF_DEPTH = 60, 1_000
#: The number of best documents per query whose spread of scores is measured, and the minimum spread.
SPREAD_DEPTH, LEAST_SPREAD = 100, 1e-6


def lexical_scale(
    xtr: tf.Tensor, lexical: tf.Tensor, floor: tf.Tensor, documents: tf.Tensor | int
) -> tf.Tensor:
    """Returns the factor that gives BM25 scores the spread of f_XTR', for one query.

    Args:
        xtr: `[documents]` float32, `-inf` for documents of which nothing was retrieved.
        lexical: `[documents]` float32, 0 for documents without a term of the query.
        floor: Scalar, f_XTR' of documents of which nothing was retrieved.
        documents: Number of documents that a search may return. The other documents have the lowest scores.

    Returns:
        Scalar float32; 0 if all documents have the same BM25 score.
    """
    depth = tf.minimum(SPREAD_DEPTH, documents)
    spread = tf.maximum(_spread(tf.maximum(xtr, floor), depth), LEAST_SPREAD)
    return tf.math.divide_no_nan(spread, _spread(lexical, depth))


def fuse(
    xtr: tf.Tensor,
    lexical: tf.Tensor,
    floor: tf.Tensor,
    scale: tf.Tensor,
    alpha: tf.Tensor,
    fusion: tf.Tensor,
) -> tf.Tensor:
    """Fuses the scores of one query.

    Args:
        xtr: `[documents]` float32, `-inf` for documents of which nothing was retrieved.
        lexical: `[documents]` float32, 0 for documents without a term of the query.
        floor: Scalar, f_XTR' of documents of which nothing was retrieved.
        scale: Scalar, from `lexical_scale`.
        alpha: Scalar, from 0 to 1.
        fusion: Scalar string, one of `xtr_tf.config.retrieval.FUSIONS`.

    Returns:
        `[documents]` float32, `-inf` for documents that are not candidates. Candidates are the documents
        found by f_XTR' or BM25. With `alpha` 0 they are only those found by f_XTR', with 1 only those found
        by BM25.
    """
    retrieved, matched = xtr > -float("inf"), lexical > 0
    candidates = retrieved & (alpha < 1) | matched & (alpha > 0)

    def weighted() -> tf.Tensor:
        return (1 - alpha) * tf.where(retrieved, xtr, floor) + alpha * (floor + scale * lexical)

    def by_ranks() -> tf.Tensor:
        ranked = (1 - alpha) * _reciprocal_ranks(xtr, retrieved)
        ranked += alpha * _reciprocal_ranks(lexical, matched)
        # If only f_XTR' counts, it is also the score that is returned.
        return tf.where(alpha > 0, tf.where(ranked > 0, ranked, -float("inf")), xtr)

    return tf.where(candidates, tf.cond(fusion == "rrf", by_ranks, weighted), -float("inf"))


def _spread(scores: tf.Tensor, depth: tf.Tensor) -> tf.Tensor:
    best = tf.math.top_k(scores, depth, sorted=False).values
    # The deviation of no values would be NaN.
    return tf.where(depth > 0, tf.math.reduce_std(best), 0.0)


def _reciprocal_ranks(scores: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """Returns `1 / (60 + rank)` for the documents found, and 0 for others and for ranks beyond the depth."""
    best = tf.math.top_k(tf.where(found, scores, -float("inf")), tf.minimum(RRF_DEPTH, tf.size(scores)))
    ranks = tf.range(1, tf.size(best.values) + 1, dtype=tf.int32)
    values = tf.where(best.values > -float("inf"), 1 / tf.cast(RRF_CONSTANT + ranks, tf.float32), 0.0)
    return tf.scatter_nd(best.indices[:, tf.newaxis], values, tf.shape(scores))
