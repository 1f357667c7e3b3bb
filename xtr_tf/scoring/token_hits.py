"""The result of a token search, and the missing similarity m_i that follows from it.

Knows nothing about documents: `xtr.py` maps tokens to them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class TokenHits(NamedTuple):
    """Retrieved document tokens, one row per query token.

    Rows can have fewer hits than columns. An entry that is not `valid` has token 0 and score `-inf`, never
    NaN. Entries of a row need not be sorted. There are as many columns as the longest row needs, at most
    `k_prime` for every searcher that ranks exactly.

    Attributes:
        token_ids: `[rows, columns]` int32, ordinals of document tokens.
        scores: `[rows, columns]` float32, inner products as the searcher computes them.
        valid: `[rows, columns]` bool.
        cutoffs: `[rows]` float32, the score of the last retrieved token. It is an upper bound for all tokens
            that were not retrieved; 0 for a row that retrieved nothing.
    """

    token_ids: tf.Tensor
    scores: tf.Tensor
    valid: tf.Tensor
    cutoffs: tf.Tensor

    def missing_similarities(self, imputation: tf.Tensor, constant: tf.Tensor | float) -> tf.Tensor:
        """Returns m_i: the similarity of a query token for a document of which it retrieved nothing.

        Args:
            imputation: `[rows]` strings, or one for all rows, from `xtr_tf.config.retrieval.IMPUTATIONS`.
            constant: m_i under `constant`, `[rows]` floats or one for all rows.

        Returns:
            `[rows]` float32; 0 under `none`, where nothing is imputed.
        """
        constant = tf.convert_to_tensor(constant, tf.float32)
        other = tf.where(imputation == "constant", constant, 0.0)
        return tf.where(imputation == "top_k_prime", self.cutoffs, other)


def hits_from_padded(token_ids: tf.Tensor, scores: tf.Tensor, valid: tf.Tensor) -> TokenHits:
    """Cleans the padding, and uses the lowest valid score of each row as its cut-off.

    Args:
        token_ids: `[rows, columns]` int32, with any values where not `valid`.
        scores: `[rows, columns]` float32, with any values (including NaN) where not `valid`.
        valid: `[rows, columns]` bool.

    Returns:
        The hits, with the padding that `TokenHits` describes.
    """
    lowest = tf.reduce_min(tf.where(valid, scores, scores.dtype.max), axis=1)
    return TokenHits(
        token_ids=tf.where(valid, token_ids, 0),
        scores=tf.where(valid, scores, -float("inf")),
        valid=valid,
        cutoffs=tf.where(tf.reduce_any(valid, axis=1), lowest, 0.0),
    )


def best_hits(token_ids: tf.Tensor, scores: tf.Tensor, k_prime: tf.Tensor) -> TokenHits:
    """Returns the `k_prime` best hits of each row, in descending order.

    Args:
        token_ids: `[rows, columns]` int32, with any values where the score is -inf.
        scores: `[rows, columns]` float32, -inf where there is no hit.
        k_prime: Scalar int32. If it is more than the number of columns, all hits are returned.

    Returns:
        `[rows, columns]`, at most `k_prime` columns.
    """
    best = tf.math.top_k(scores, tf.minimum(k_prime, tf.shape(scores)[1]))
    return hits_from_padded(
        tf.gather(token_ids, best.indices, batch_dims=1), best.values, best.values > -float("inf")
    )
