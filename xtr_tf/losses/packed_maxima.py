"""`document_maxima` without the work that padding would cost: about half of all query tokens."""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.losses.document_maxima import DocumentMaxima, document_maxima


def packed_maxima(
    queries: tf.Tensor,
    query_mask: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    candidates: tf.Tensor,
    k: int = 0,
    recall: float = 1.0,
    block: int | None = None,
) -> DocumentMaxima:
    """The maxima of real query tokens; those of padding, and its thresholds, are `-inf`.

    The number of real tokens is a size that only the data tells, which XLA cannot compile: there,
    call `document_maxima`.

    Args:
        queries: `[Q, n, dim]`.
        query_mask: `[Q, n]`, true at real tokens.
        documents: `[D, m, dim]`.
        document_mask: `[D, m]`, true at real tokens.
        candidates: `[Q, D]`, false where a document must be invisible to a query.
        k: Rank of the threshold; 0 leaves it at `-inf`.
        recall: As for `document_maxima`.
        block: As for `document_maxima`.
    """
    places = tf.cast(tf.where(query_mask), tf.int32)
    rows = tf.gather_nd(queries, places)[:, None, :]
    found = document_maxima(
        rows, documents, document_mask, tf.gather(candidates, places[:, 0]), k, recall, block
    )
    shape = tf.shape(query_mask)
    numbers = tf.scatter_nd(places, tf.range(tf.shape(places)[0]) + 1, shape)
    return DocumentMaxima(_unpack(found.values[:, 0], numbers), _unpack(found.threshold[:, 0], numbers))


def _unpack(values: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """`[rows, ...]` to `[Q, n, ...]`; `numbers` are rows from 1, 0 at padding."""
    padding = tf.fill(tf.concat([[1], tf.shape(values)[1:]], axis=0), -float("inf"))
    return tf.gather(tf.concat([padding, values], axis=0), numbers)
