"""How many cells a search looks into when the request leaves it open."""

from __future__ import annotations

import tensorflow as tf


def number_of_leaves(
    requested: tf.Tensor,
    k_prime: tf.Tensor,
    configured: int,
    num_cells: int,
    num_tokens: int,
    share: float,
    tokens_per_k_prime: float,
) -> tf.Tensor:
    """Returns the request's number of cells, else the index's, else one by rule.

    The rule takes a share of the cells, or more where k' needs it: cells with at least
    `tokens_per_k_prime` times k' tokens.

    Args:
        requested: Scalar int32, 0 for none.
        k_prime: Scalar int32.
        configured: Of the index, 0 for none.
        num_cells: Cells in all.
        num_tokens: Tokens in all.
        share: Least share of the cells.
        tokens_per_k_prime: Tokens to look at for each that is wanted.

    Returns:
        Scalar int32 from 1 to `num_cells`.
    """
    needed = tf.cast(k_prime, tf.float32) * (tokens_per_k_prime * num_cells / num_tokens)
    by_rule = tf.maximum(tf.cast(tf.math.ceil(needed), tf.int32), round(share * num_cells))
    default = tf.constant(configured) if configured else by_rule
    return tf.clip_by_value(tf.where(requested > 0, requested, default), 1, num_cells)
