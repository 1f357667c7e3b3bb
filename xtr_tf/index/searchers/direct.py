"""Scores given tokens one by one. This is exact for the vectors of the index, and fast for few tokens.

Knows nothing about leaves or why these tokens were selected.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded

# Tokens scored at a time, so that memory is bounded for any number of tokens. A block is 4 MiB of floats.
# With twice as many, fewer of them fit into a cache, and scoring a token took 1.3 times as long.
_BLOCK = 8_192
# Up to this many similarities are kept in memory (64 MiB), and a cut-off finds the best.
_HELD = 1 << 24
# The cut-off is found on a sample of the scored tokens, in which its rank is at least this.
_MIN_RANK_IN_SAMPLE = 128
_MAX_STRIDE = 64


def search_directly(
    query_vectors: tf.Tensor,
    tokens: tf.Tensor,
    k_prime: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
) -> TokenHits:
    """Finds the best of some tokens for each query token: `k_prime`, or about as many if it is 256 or more.

    Args:
        query_vectors: `[rows, dim]` float32.
        tokens: `[count]` int32 ordinals, of any number.
        k_prime: Scalar int32, at least 1. If it is more than `count`, all tokens are returned.
        vectors_of: Function from `[any]` ordinals to their vectors, `[any, dim]` float32.

    Returns:
        The hits, `[rows, columns]`, with at least one column.
    """
    rows, count = tf.shape(query_vectors)[0], tf.size(tokens)

    def score(some: tf.Tensor) -> tf.Tensor:
        return tf.matmul(vectors_of(some), query_vectors, transpose_b=True)

    def by_cut_off() -> tuple[tf.Tensor, ...]:
        scores = score_in_blocks(score, tokens, rows)
        return tuple(padded_hits(*above_cut_offs(scores, tokens, k_prime)))

    def by_blocks() -> tuple[tf.Tensor, ...]:
        places, scores = best_in_blocks(
            lambda start, end: tf.matmul(query_vectors, vectors_of(tokens[start:end]), transpose_b=True),
            *(rows, count, _BLOCK, k_prime),
        )
        return tuple(hits_from_padded(tf.gather(tokens, places), scores, tf.ones_like(scores, tf.bool)))

    return TokenHits(*tf.cond(rows <= _HELD // tf.maximum(count, 1), by_cut_off, by_blocks))


def score_in_blocks(score: Callable[[tf.Tensor], tf.Tensor], tokens: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Scores tokens block by block.

    Args:
        score: Function from `[any]` int32 to their scores with every query token, `[any, rows]` float32.
        tokens: `[count]` int32, arguments of `score`.
        rows: Scalar int32, the number of query tokens.

    Returns:
        `[count, rows]` float32.
    """
    # One block even if there are no tokens, because an empty array cannot be concatenated.
    blocks = tf.maximum(-(-tf.size(tokens) // _BLOCK), 1)

    def score_block(block: tf.Tensor, scored: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return block + 1, scored.write(block, score(tokens[block * _BLOCK : (block + 1) * _BLOCK]))

    _, scored = tf.while_loop(
        cond=lambda block, _: block < blocks,
        body=score_block,
        loop_vars=(
            tf.constant(0),
            tf.TensorArray(tf.float32, blocks, infer_shape=False, element_shape=[None, None]),
        ),
        parallel_iterations=1,
    )
    return tf.reshape(scored.concat(), [-1, rows])


def above_cut_offs(
    scores: tf.Tensor, tokens: tf.Tensor, k_prime: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns about the best `k_prime` of each row without sorting, exactly that many (or ties) below 256.

    Args:
        scores: `[count, rows]` float32.
        tokens: `[count]` int32.
        k_prime: Scalar int32.

    Returns:
        Tokens and scores of all rows, row by row, and `[rows]` int64, the number of hits per row.
    """
    by_row = tf.transpose(scores)
    rows, count = tf.unstack(tf.shape(by_row, tf.int64))
    stride = tf.clip_by_value(k_prime // _MIN_RANK_IN_SAMPLE, 1, _MAX_STRIDE)
    sample = by_row[:, ::stride]
    rank = tf.minimum(k_prime // stride, tf.shape(sample)[1])
    cut_offs = tf.reduce_min(tf.math.top_k(sample, rank).values, axis=1, keepdims=True)
    cut_offs = tf.where(tf.cast(k_prime, tf.int64) >= count, -float("inf"), cut_offs)
    # Places in all rows, one after the other: cheaper to find, to gather and to count than pairs of indices.
    places = tf.where(tf.reshape(by_row >= cut_offs, [-1]))[:, 0]
    ends = tf.searchsorted(places, tf.range(1, rows + 1) * count, out_type=tf.int64)
    lengths = ends - tf.concat([[0], ends[:-1]], axis=0)
    return tf.gather(tokens, places % count), tf.gather(tf.reshape(by_row, [-1]), places), lengths


def padded_hits(
    tokens: tf.Tensor, scores: tf.Tensor, lengths: tf.Tensor, most: tf.Tensor | None = None
) -> TokenHits:
    """Pads hits given row by row.

    Args:
        tokens: `[hits]` int32, row by row.
        scores: `[hits]` float32.
        lengths: `[rows]` int64, the number of hits per row.
        most: Scalar int32. Of rows with more hits, only the first are kept; all if None.

    Returns:
        The hits, `[rows, columns]`, with at least one column.
    """
    columns = tf.maximum(tf.reduce_max(lengths), 1)
    if most is not None:
        columns = tf.minimum(columns, tf.cast(most, tf.int64))

    def padded(values: tf.Tensor) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        return ragged.to_tensor(shape=tf.stack([-1, columns]))

    return hits_from_padded(padded(tokens), padded(scores), tf.sequence_mask(lengths, columns))


def best_in_blocks(
    similarities: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    rows: tf.Tensor,
    count: tf.Tensor | int,
    block: tf.Tensor | int,
    k_prime: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the top-k' of many columns, with one block of columns in memory at a time.

    Args:
        similarities: Function from a start and an end to `[rows, end - start]` float32.
        rows: Scalar int32.
        count: Number of all columns.
        block: Columns per block.
        k_prime: Scalar int32, at least 1. If it is more than `count`, all columns are returned.

    Returns:
        Columns and scores of the best, `[rows, min(k_prime, count)]`, in descending order. Equal scores are
        ranked by column.
    """

    def merge(start: tf.Tensor, places: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
        end = tf.minimum(start + block, count)
        of_block = tf.math.top_k(similarities(start, end), tf.minimum(k_prime, end - start))
        scores = tf.concat([scores, of_block.values], axis=1)
        places = tf.concat([places, of_block.indices + start], axis=1)
        best = tf.math.top_k(scores, tf.minimum(k_prime, tf.shape(scores)[1]))
        return end, tf.gather(places, best.indices, batch_dims=1), best.values

    _, places, scores = tf.while_loop(
        cond=lambda start, *_: start < count,
        body=merge,
        loop_vars=(tf.constant(0), tf.zeros([rows, 0], tf.int32), tf.zeros([rows, 0])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None]), tf.TensorShape([None, None])),
        parallel_iterations=1,
    )
    return places, scores
