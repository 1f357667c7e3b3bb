"""From scores of candidates to the best documents of a query, in stock TensorFlow ops.

Knows nothing of where the scores come from.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class RankedDocuments(NamedTuple):
    """The best documents of each query.

    Attributes:
        ordinals: `[queries, top_k]` int32, -1 where fewer documents were found.
        scores: `[queries, top_k]` float32, descending, `-inf` where fewer were found; never NaN.
            Equal scores are ranked by document order.
    """

    ordinals: tf.Tensor
    scores: tf.Tensor

    def cut(self, top_k: tf.Tensor) -> RankedDocuments:
        """The first `top_k` documents of each query, `[queries, max(top_k)]`.

        Args:
            top_k: `[queries]` int32, none above the columns there are.
        """
        columns = tf.range(tf.reduce_max(top_k))
        beyond = columns >= top_k[:, tf.newaxis]
        return RankedDocuments(
            ordinals=tf.where(beyond, -1, self.ordinals[:, : tf.size(columns)]),
            scores=tf.where(beyond, -float("inf"), self.scores[:, : tf.size(columns)]),
        )

    def above(self, min_score: tf.Tensor) -> RankedDocuments:
        """The documents that score at least so much, `[queries]` float32 or `[1]` for all."""
        below = self.scores < min_score[:, tf.newaxis]
        return RankedDocuments(
            ordinals=tf.where(below, -1, self.ordinals), scores=tf.where(below, -float("inf"), self.scores)
        )


#: What `tf.map_fn` is told about the ranking of one query.
ONE_RANKING = RankedDocuments(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32))


def rank_all(scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    """Ranks one query's `[documents]` scores, whose positions are the ordinals; `[top_k]` results.

    Args:
        scores: `[documents]` float32, `-inf` for what is not a result.
        top_k: Scalar int32.

    Returns:
        `[top_k]` ordinals and scores, best first; of equal scores the first document.
    """
    # Of equal scores, `top_k` takes the one that comes first, and so the first document.
    best = tf.math.top_k(scores, tf.minimum(top_k, tf.size(scores)))
    return _padded(best.indices, best.values, top_k)


def rank_candidates(ordinals: tf.Tensor, scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    """Ranks one query's candidates, which come in any order.

    Args:
        ordinals: `[candidates]` int32.
        scores: `[candidates]` float32, `-inf` for what is not a result.
        top_k: Scalar int32.

    Returns:
        `[top_k]` ordinals and scores.
    """
    keys = sort_keys(scores, ordinals)
    best = tf.math.top_k(keys, tf.minimum(top_k, tf.size(keys))).indices
    return _padded(tf.gather(ordinals, best), tf.gather(scores, best), top_k)


def sort_keys(scores: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
    """Integers that sort as (score, then the smaller ordinal first), largest best: `[any]` int64.

    `top_k` breaks ties by position, but candidates come in the order in which hits named them, and
    TensorFlow has no sort by two keys. The bits of a float32, read as an int32, already sort as
    positive floats do; flipping all but the sign bit of negative ones makes them sort as well. That
    order takes the high half of an int64 and leaves the low half to the ordinal. It is exact for every
    float, infinities included, where adding a small multiple of the ordinal to the score would not be.
    (-0.0 sorts just below 0.0.)

    Args:
        scores: `[any]` float32.
        ordinals: `[any]` int32.

    Returns:
        `[any]` int64.
    """
    bits = tf.bitcast(scores, tf.int32)
    ordered = tf.where(bits >= 0, bits, tf.bitwise.bitwise_xor(bits, tf.int32.max))
    return tf.cast(ordered, tf.int64) * (1 << 32) - tf.cast(ordinals, tf.int64)


def _padded(ordinals: tf.Tensor, scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    padding = [[0, top_k - tf.size(scores)]]
    return RankedDocuments(
        ordinals=tf.pad(tf.where(scores > -float("inf"), ordinals, -1), padding, constant_values=-1),
        scores=tf.pad(scores, padding, constant_values=-float("inf")),
    )
