"""From the scores of candidates to the best documents of a query, in stock TensorFlow ops.

Knows nothing about where the scores come from.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class RankedDocuments(NamedTuple):
    """The best documents of each query.

    Attributes:
        ordinals: `[queries, top_k]` int32, -1 where fewer documents were found.
        scores: `[queries, top_k]` float32, descending, `-inf` where fewer were found; never NaN. Documents
            with equal scores are in corpus order.
    """

    ordinals: tf.Tensor
    scores: tf.Tensor

    def cut(self, top_k: tf.Tensor) -> RankedDocuments:
        """Returns the first `top_k` documents of each query.

        Args:
            top_k: `[queries]` int32, none greater than the number of columns.

        Returns:
            `[queries, max(top_k)]`, -1 and `-inf` beyond the `top_k` of a query.
        """
        columns = tf.range(tf.reduce_max(top_k))
        beyond = columns >= top_k[:, tf.newaxis]
        return RankedDocuments(
            ordinals=tf.where(beyond, -1, self.ordinals[:, : tf.size(columns)]),
            scores=tf.where(beyond, -float("inf"), self.scores[:, : tf.size(columns)]),
        )

    def above(self, min_score: tf.Tensor) -> RankedDocuments:
        """Returns only the documents with at least this score.

        Args:
            min_score: `[queries]` float32, or `[1]` for all queries.

        Returns:
            The same shape, -1 and `-inf` in place of the other documents.
        """
        below = self.scores < min_score[:, tf.newaxis]
        return RankedDocuments(
            ordinals=tf.where(below, -1, self.ordinals), scores=tf.where(below, -float("inf"), self.scores)
        )


#: The specs of the ranking of one query, for `tf.map_fn`.
ONE_RANKING = RankedDocuments(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32))


def rank_all(scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    """Ranks all documents for one query.

    Args:
        scores: `[documents]` float32, at the ordinals of the documents; `-inf` for documents that are not
            results.
        top_k: Scalar int32.

    Returns:
        `[top_k]` ordinals and scores, best first. Documents with equal scores are in corpus order.
    """
    # `top_k` puts the first of equal scores first, and so the first document.
    best = tf.math.top_k(scores, tf.minimum(top_k, tf.size(scores)))
    return _padded(best.indices, best.values, top_k)


def rank_candidates(ordinals: tf.Tensor, scores: tf.Tensor, top_k: tf.Tensor) -> RankedDocuments:
    """Ranks the candidates of one query, which can be in any order.

    Args:
        ordinals: `[candidates]` int32.
        scores: `[candidates]` float32, `-inf` for candidates that are not results.
        top_k: Scalar int32.

    Returns:
        `[top_k]` ordinals and scores, best first. Documents with equal scores are in corpus order.
    """
    keys = sort_keys(scores, ordinals)
    best = tf.math.top_k(keys, tf.minimum(top_k, tf.size(keys))).indices
    return _padded(tf.gather(ordinals, best), tf.gather(scores, best), top_k)


def sort_keys(scores: tf.Tensor, ordinals: tf.Tensor) -> tf.Tensor:
    """Returns integers that sort by score, and for equal scores by smaller ordinal. The largest is best.

    `top_k` breaks ties by position, but candidates are in the order of their hits, and TensorFlow has no sort
    by two keys. The bits of a positive float32, read as an int32, sort as the floats do. Negative floats sort
    correctly after flipping all bits except the sign bit. These bits become the high half of an int64, and
    the low half is for the ordinal. This is exact for every float, including infinities. Adding a small
    multiple of the ordinal to the score would not be. (-0.0 sorts just below 0.0.)

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
