"""f_XTR and f_ColBERT of every query and document of a batch, from the MaxSim of `maxsim.py`.

f_XTR counts only those document tokens that a query token retrieves within the batch
([XTR](https://arxiv.org/abs/2304.01982), section 3.1). A document token counts for a query token if and only
if their similarity is at least the k_train-th largest that this query token has with all document tokens of
the batch. All tokens that tie with the threshold are retrieved, so the result does not depend on their order
or on the device.

f_XTR' is the score that search ranks by (section 3.2): a query token that retrieved nothing of a document
counts with the threshold instead of not at all.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.training.losses.maxsim import max_similarities


class TokenRetrieval(NamedTuple):
    """The scores of a batch, and their parts.

    Attributes:
        scores: f_XTR, or with imputation f_XTR', `[Q, D]`.
        retrieving_tokens: Z, the number of query tokens that retrieved a token of the document, `[Q, D]`.
        threshold: Smallest similarity that each query token retrieves, `[Q, n]`.
    """

    scores: tf.Tensor
    retrieving_tokens: tf.Tensor
    threshold: tf.Tensor


def token_retrieval_scores(
    queries: tf.Tensor,
    query_mask: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    k_train: int,
    candidates: tf.Tensor | None = None,
    imputed: bool = False,
    recall: float = 1.0,
    block: int | None = None,
    static_shapes: bool = True,
) -> TokenRetrieval:
    """Scores every query against every document by in-batch token retrieval.

    If the best token of a document reaches the threshold, it is also the best retrieved token. Otherwise no
    token was retrieved. So one pass over the similarities gives both, and a retrieved token keeps its value
    even if it is negative. No gradient flows through Z, through the selection or through an imputed
    threshold.

    Args:
        queries: `[Q, n, dim]`.
        query_mask: `[Q, n]`, true for real tokens.
        documents: `[D, m, dim]`, all documents of the global batch.
        document_mask: `[D, m]`, true for real tokens.
        k_train: Document tokens that each query token retrieves. If there are fewer, all are retrieved.
        candidates: `[Q, D]`, false where a query must not retrieve a document, and the document must not take
            the place of another. By default all are candidates.
        imputed: Whether the score is f_XTR'. A document without tokens then scores like a document of which
            nothing was retrieved.
        recall: Below 1, the threshold comes from a TPU's approximate top-k with this recall.
        block: Documents to compare at a time. Chosen by their size by default.
        static_shapes: Whether to use only static shapes, as XLA requires. Otherwise padding of queries costs
            nothing. The scores are the same.

    Returns:
        The scores `[Q, D]`, Z, and the threshold of each query token.

    Example:
    ```python
    queries = tf.math.l2_normalize(tf.random.normal([2, 4, 128]), axis=-1)
    documents = tf.math.l2_normalize(tf.random.normal([3, 8, 128]), axis=-1)
    query_mask, document_mask = tf.ones([2, 4], bool), tf.ones([3, 8], bool)
    scores = token_retrieval_scores(queries, query_mask, documents, document_mask, k_train=6).scores
    ```
    """
    if candidates is None:
        candidates = _everything(queries, documents)
    maxima, threshold = max_similarities(
        queries,
        documents,
        document_mask,
        candidates,
        k_train,
        recall,
        block,
        query_mask=None if static_shapes else query_mask,
    )
    retrieved = query_mask[:, :, None] & tf.math.is_finite(maxima) & (maxima >= threshold[:, :, None])
    retrieving_tokens = tf.reduce_sum(tf.cast(retrieved, tf.float32), axis=1)
    counted, missing = retrieving_tokens, tf.zeros_like(threshold)
    if imputed:
        counted = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1, keepdims=True)
        missing = tf.where(query_mask & tf.math.is_finite(threshold), threshold, 0.0)
    totals = tf.reduce_sum(tf.where(retrieved, maxima, missing[:, :, None]), axis=1)
    return TokenRetrieval(totals / tf.maximum(counted, 1.0), retrieving_tokens, threshold)


def maxsim_scores(
    queries: tf.Tensor,
    query_mask: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    block: int | None = None,
    static_shapes: bool = True,
) -> tf.Tensor:
    """f_ColBERT: scores every query against every document by the mean of its tokens' MaxSim.

    Args:
        queries: `[Q, n, dim]`.
        query_mask: `[Q, n]`, true for real tokens.
        documents: `[D, m, dim]`.
        document_mask: `[D, m]`, true for real tokens.
        block: Documents to compare at a time. Chosen by their size by default.
        static_shapes: As for `token_retrieval_scores`.

    Returns:
        `[Q, D]`, 0 for a document or a query without tokens.

    Example:
    ```python
    queries = tf.math.l2_normalize(tf.random.normal([2, 4, 128]), axis=-1)
    documents = tf.math.l2_normalize(tf.random.normal([3, 8, 128]), axis=-1)
    scores = maxsim_scores(queries, tf.ones([2, 4], bool), documents, tf.ones([3, 8], bool))  # [2, 3]
    ```
    """
    candidates = _everything(queries, documents)
    maxima, _ = max_similarities(
        queries,
        documents,
        document_mask,
        candidates,
        block=block,
        query_mask=None if static_shapes else query_mask,
    )
    counted = query_mask[:, :, None] & tf.math.is_finite(maxima)
    totals = tf.reduce_sum(tf.where(counted, maxima, 0.0), axis=1)
    lengths = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1, keepdims=True)
    return totals / tf.maximum(lengths, 1.0)


def _everything(queries: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
    """Returns a mask with every document as a candidate of every query, `[Q, D]`."""
    return tf.ones([tf.shape(queries)[0], tf.shape(documents)[0]], tf.bool)
