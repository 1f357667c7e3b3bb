"""A batch of nothing is a valid request, but not every op takes one."""

from __future__ import annotations

import tensorflow as tf


def at_least_one_row(values: tf.Tensor) -> tf.Tensor:
    """Adds a row of zeros to a tensor that has none, to be cut off what comes of it.

    Some search ops refuse a search without queries, and `tf.map_fn` cannot stack nothing.
    """
    shape = tf.shape(values)
    missing = tf.cast(shape[:1] == 0, tf.int32)
    return tf.concat([values, tf.zeros(tf.concat([missing, shape[1:]], axis=0), values.dtype)], axis=0)
