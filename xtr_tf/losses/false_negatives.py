"""Which in-batch negatives of a query are known to be right answers.

Documents are recognised by fingerprints, so that no text has to reach the device. A fingerprint
is a pair of 32-bit integers (a TPU has no 64-bit ones); two zeros mean "none" and match nothing.
"""

from __future__ import annotations

import tensorflow as tf


def false_negatives(positive_keys: tf.Tensor, document_keys: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Marks documents that share a fingerprint with one of a query's positives.

    Args:
        positive_keys: `[Q, P, F, 2]` int32, `F` fingerprints of each of a query's `P` known
            positives, for instance one of the id and one of the text.
        document_keys: `[D, F, 2]` int32, the same fingerprints of the batch's documents.
        labels: `[Q]`, the column of each query's own positive, which is never marked.

    Returns:
        `[Q, D]` boolean.
    """
    known = tf.reduce_any(document_keys != 0, axis=-1)
    equal = tf.reduce_all(positive_keys[:, :, None] == document_keys[None, None], axis=-1)
    matching = tf.reduce_any(equal & known, axis=[1, 3])
    columns = tf.range(tf.shape(document_keys)[0])
    return matching & (columns[None, :] != labels[:, None])
