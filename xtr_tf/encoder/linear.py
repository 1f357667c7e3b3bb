"""A linear map of the last axis, as one matrix product."""

from __future__ import annotations

import tensorflow as tf


def linear(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """`inputs @ kernel` with all leading axes flattened into one.

    `tf.matmul` of a batch by one kernel makes a product per row of the batch, and its gradient a
    kernel per row, to be summed: flattened, both are one large product.

    Args:
        inputs: `[..., inputs]`.
        kernel: `[inputs, outputs]` of the same dtype.

    Returns:
        `[..., outputs]`.
    """
    kernel = tf.convert_to_tensor(kernel)
    rows = tf.reshape(inputs, [-1, kernel.shape[0]])
    outputs = tf.matmul(rows, kernel)
    leading = tf.shape(inputs)[:-1]
    shaped = tf.reshape(outputs, tf.concat([leading, [kernel.shape[1]]], axis=0))
    return tf.ensure_shape(shaped, [*inputs.shape[:-1], kernel.shape[1]])
