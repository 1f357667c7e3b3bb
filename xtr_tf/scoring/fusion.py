"""Hybrid scores: f_XTR' and BM25 of the same documents made one, in stock TensorFlow ops.

`weighted` is a mean on the scale of f_XTR', so that `alpha` 0 is f_XTR' itself and 1 ranks as BM25:

    (1 - alpha) * f_XTR' + alpha * (floor + scale * BM25)

where floor is f_XTR' of a document of which nothing was retrieved: a document without a term of the query
counts as one without a retrieved token. The scale is the query's own: the standard deviation of its 100 best
f_XTR' over that of its 100 best BM25 scores, so that both count by what tells good documents from the next
best ones, however large the corpus is.

`rrf` adds `(1 - alpha) / (60 + rank)` and `alpha / (60 + rank)`, by ranks from 1 among the best 1,000 of each
([Cormack et al., 2009](https://doi.org/10.1145/1571941.1572114)). Knows nothing of where scores come from.
`fusion_reference.py` is its NumPy twin.
"""

from __future__ import annotations

import tensorflow as tf

#: What is added to ranks, and how many documents have one.
RRF_CONSTANT, RRF_DEPTH = 60, 1_000
#: Best documents of a query whose scores say how far they spread, and the least spread.
SPREAD_DEPTH, LEAST_SPREAD = 100, 1e-6


def lexical_scale(
    xtr: tf.Tensor, lexical: tf.Tensor, floor: tf.Tensor, documents: tf.Tensor | int
) -> tf.Tensor:
    """What BM25 is multiplied by to spread as f_XTR' does, for the scores of one query.

    Args:
        xtr: `[documents]` float32, `-inf` for documents of which nothing was retrieved.
        lexical: `[documents]` float32, 0 for documents without a term of the query.
        floor: Scalar, f_XTR' of the former.
        documents: How many may be found; the others have the lowest scores.

    Returns:
        Scalar float32; 0 where all documents have the same BM25.
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
        floor: Scalar, f_XTR' of the former.
        scale: Scalar, of `lexical_scale`.
        alpha: Scalar, from 0 to 1.
        fusion: Scalar string, one of `xtr_tf.config.retrieval.FUSIONS`.

    Returns:
        `[documents]` float32, `-inf` for what is not a candidate. Candidates are the documents that either
        found, only f_XTR''s if `alpha` is 0, and only BM25's if it is 1.
    """
    retrieved, matched = xtr > -float("inf"), lexical > 0
    candidates = retrieved & (alpha < 1) | matched & (alpha > 0)

    def weighted() -> tf.Tensor:
        return (1 - alpha) * tf.where(retrieved, xtr, floor) + alpha * (floor + scale * lexical)

    def by_ranks() -> tf.Tensor:
        ranked = (1 - alpha) * _reciprocal_ranks(xtr, retrieved)
        ranked += alpha * _reciprocal_ranks(lexical, matched)
        # Where f_XTR' is all that counts, it is also what is returned.
        return tf.where(alpha > 0, tf.where(ranked > 0, ranked, -float("inf")), xtr)

    return tf.where(candidates, tf.cond(fusion == "rrf", by_ranks, weighted), -float("inf"))


def _spread(scores: tf.Tensor, depth: tf.Tensor) -> tf.Tensor:
    best = tf.math.top_k(scores, depth, sorted=False).values
    # Of nothing there is no deviation.
    return tf.where(depth > 0, tf.math.reduce_std(best), 0.0)


def _reciprocal_ranks(scores: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """`1 / (60 + rank)` of the documents found, 0 for others and beyond the depth."""
    best = tf.math.top_k(tf.where(found, scores, -float("inf")), tf.minimum(RRF_DEPTH, tf.size(scores)))
    ranks = tf.range(1, tf.size(best.values) + 1, dtype=tf.int32)
    values = tf.where(best.values > -float("inf"), 1 / tf.cast(RRF_CONSTANT + ranks, tf.float32), 0.0)
    return tf.scatter_nd(best.indices[:, tf.newaxis], values, tf.shape(scores))
