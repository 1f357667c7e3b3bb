"""f_ColBERT: exact MaxSim, every token compared and nothing imputed, in stock TensorFlow ops.

    f_ColBERT(Q, D) = 1/n * sum_i max_j P_ij

Of texts that a caller brings (`maxsim_scores`), and of candidates whose vectors an index keeps
(`rescore_documents`). Knows nothing of text or of how vectors are kept. `reference.py` is its NumPy
twin; training compares whole batches with an op of its own (`training/losses/maxsim.py`).

Citation: [Khattab and Zaharia, 2020](https://arxiv.org/abs/2004.12832).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from xtr_tf.scoring.ranking import ONE_RANKING, RankedDocuments, rank_candidates

# Documents encoded at a time: attention over 512 tokens takes 12 MiB per document in a base encoder.
_DOCUMENTS_AT_ONCE = 16
_QUERIES_AT_ONCE = 4


def maxsim_scores(
    queries: tf.Tensor, query_mask: tf.Tensor, documents: tf.Tensor, document_mask: tf.Tensor
) -> tf.Tensor:
    """f_ColBERT of pairs.

    Args:
        queries: `[pairs, query_length, dim]` float32.
        query_mask: `[pairs, query_length]` bool.
        documents: `[pairs, document_length, dim]` float32.
        document_mask: `[pairs, document_length]` bool.

    Returns:
        `[pairs]` float32; `-inf` for a document without tokens, 0 for a query without.
    """
    similarities = tf.matmul(queries, documents, transpose_b=True)
    similarities = tf.where(document_mask[:, tf.newaxis, :], similarities, -float("inf"))
    best = tf.where(query_mask, tf.reduce_max(similarities, axis=2), 0.0)
    tokens = tf.reduce_sum(tf.cast(query_mask, tf.float32), axis=1)
    return tf.math.divide_no_nan(tf.reduce_sum(best, axis=1), tokens)


def score_in_chunks(count: tf.Tensor, score: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Scores many documents a few at a time, so that memory does not grow with their number.

    Args:
        count: Scalar int32, how many there are.
        score: From `[chunk]` int32 positions to `[chunk]` float32 scores.

    Returns:
        `[count]` float32.
    """
    chunks = (count + _DOCUMENTS_AT_ONCE - 1) // _DOCUMENTS_AT_ONCE
    scores = tf.TensorArray(tf.float32, size=chunks, infer_shape=False, element_shape=[None])

    def step(index: tf.Tensor, scores: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        start = index * _DOCUMENTS_AT_ONCE
        positions = tf.range(start, tf.minimum(start + _DOCUMENTS_AT_ONCE, count))
        return index + 1, scores.write(index, score(positions))

    _, scores = tf.while_loop(
        lambda index, _: index < chunks, step, (tf.constant(0), scores), parallel_iterations=1
    )
    return scores.concat()


def rescore_documents(
    ranked: RankedDocuments,
    encodings: tf.Tensor,
    query_mask: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
    document_offsets: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> RankedDocuments:
    """Ranks candidates again by exact f_ColBERT, where token vectors are kept.

    Args:
        ranked: Candidates, `[queries, candidates]`.
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) where there is a token.
        vectors_of: Gives the vectors of `[any]` token ordinals, `[any, dim]` float32.
        document_offsets: `[documents + 1]` integers; tokens of document `i` are `[i]` to `[i + 1]`.
        weights: `[queries, length]` float32, what each query token counts for; the same if None.

    Returns:
        The same documents in their new order, `[queries, candidates]`.
    """
    query_mask = tf.cast(query_mask, tf.bool)
    weights = tf.ones(tf.shape(query_mask)) if weights is None else weights

    def rescore_query(query: tuple[tf.Tensor, ...]) -> RankedDocuments:
        ordinals, encoding, mask, weights = query
        vectors, counted = tf.boolean_mask(encoding, mask), tf.boolean_mask(weights, mask)
        scores = score_kept_documents(ordinals, vectors, counted, vectors_of, document_offsets)
        return rank_candidates(ordinals, scores, tf.size(ordinals))

    return tf.map_fn(
        rescore_query,
        (ranked.ordinals, encodings, query_mask, weights),
        fn_output_signature=ONE_RANKING,
        parallel_iterations=None if tf.executing_eagerly() else _QUERIES_AT_ONCE,
    )


def score_kept_documents(
    ordinals: tf.Tensor,
    vectors: tf.Tensor,
    weights: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
    document_offsets: tf.Tensor,
) -> tf.Tensor:
    """f_ColBERT of one query with some documents.

    Args:
        ordinals: `[documents]` int32, -1 for none.
        vectors: `[rows, dim]` float32, the tokens of the query.
        weights: `[rows]` float32, what each of them counts for.
        vectors_of: As for `rescore_documents`.
        document_offsets: As there.

    Returns:
        `[documents]` float32, `-inf` for none and for documents without tokens.
    """
    present = tf.maximum(ordinals, 0)
    starts, ends = tf.gather(document_offsets, present), tf.gather(document_offsets, present + 1)
    tokens = tf.ragged.range(starts, tf.where(ordinals >= 0, ends, starts))
    similarities = tf.matmul(vectors_of(tokens.flat_values), vectors, transpose_b=True)
    best = tf.math.unsorted_segment_max(similarities, tokens.value_rowids(), tf.size(ordinals))
    scores = tf.math.divide_no_nan(tf.linalg.matvec(best, weights), tf.reduce_sum(weights))
    return tf.where(tokens.row_lengths() > 0, scores, -float("inf"))
