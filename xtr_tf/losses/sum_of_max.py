"""f_ColBERT: the mean over a query's tokens of their best similarity in a document.

[ColBERT](https://arxiv.org/abs/2004.12832), normalised by the query's length as in
[XTR](https://arxiv.org/abs/2304.01982): the ranking is the same, training steadier.
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.losses.document_maxima import document_maxima
from xtr_tf.losses.packed_maxima import packed_maxima


def sum_of_max_scores(
    queries: tf.Tensor,
    query_mask: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    block: int | None = None,
    static_shapes: bool = True,
) -> tf.Tensor:
    """Scores every query against every document.

    Example:
    ```python
    queries = tf.math.l2_normalize(tf.random.normal([2, 4, 128]), axis=-1)
    documents = tf.math.l2_normalize(tf.random.normal([3, 8, 128]), axis=-1)
    scores = sum_of_max_scores(queries, tf.ones([2, 4], bool), documents, tf.ones([3, 8], bool))  # [2, 3]
    ```

    Args:
        queries: `[Q, n, dim]`.
        query_mask: `[Q, n]`, true at real tokens.
        documents: `[D, m, dim]`.
        document_mask: `[D, m]`, true at real tokens.
        block: Documents compared at a time; chosen by their size if not given.
        static_shapes: As for `token_retrieval_scores`.

    Returns:
        `[Q, D]`, 0 for a document or a query without tokens.
    """
    candidates = tf.ones([tf.shape(queries)[0], tf.shape(documents)[0]], tf.bool)
    if static_shapes:
        maxima = document_maxima(queries, documents, document_mask, candidates, block=block).values
    else:
        maxima = packed_maxima(queries, query_mask, documents, document_mask, candidates, block=block).values
    counted = query_mask[:, :, None] & tf.math.is_finite(maxima)
    totals = tf.reduce_sum(tf.where(counted, maxima, 0.0), axis=1)
    lengths = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1, keepdims=True)
    return totals / tf.maximum(lengths, 1.0)
