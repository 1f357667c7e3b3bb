"""Scoring given tokens one by one: exact over what the index stores, and the way to search few of its tokens.

Knows nothing of leaves, nor of why these tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded

# Tokens scored at once, so that memory stays bounded however many there are.
_BLOCK = 16_384


def search_directly(
    query_vectors: tf.Tensor,
    tokens: tf.Tensor,
    k_prime: tf.Tensor,
    vectors_of: Callable[[tf.Tensor], tf.Tensor],
) -> TokenHits:
    """Finds the best of some tokens for each query token.

    Args:
        query_vectors: `[rows, dim]` float32.
        tokens: `[count]` int32 ordinals, of any number.
        k_prime: Scalar int32, at least 1; more than `count` means all.
        vectors_of: Gives the vectors of `[any]` ordinals, `[any, dim]` float32.

    Returns:
        The hits, `[rows, max(min(k_prime, count), 1)]`.
    """
    places, scores = best_in_blocks(
        lambda start, end: tf.matmul(query_vectors, vectors_of(tokens[start:end]), transpose_b=True),
        tf.shape(query_vectors)[0],
        tf.size(tokens),
        _BLOCK,
        k_prime,
    )
    found = tf.gather(tokens, places)
    # One column at least, which holds nothing where there are no tokens.
    missing = [[0, 0], [0, tf.maximum(1 - tf.shape(scores)[1], 0)]]
    return hits_from_padded(
        tf.pad(found, missing),
        tf.pad(scores, missing),
        tf.pad(tf.ones_like(scores, tf.bool), missing),
    )


def best_in_blocks(
    similarities: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    rows: tf.Tensor,
    count: tf.Tensor | int,
    block: tf.Tensor | int,
    k_prime: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The running top-k' of a long row of columns, of which one block is there at a time.

    Args:
        similarities: Gives `[rows, end - start]` float32 for a start and an end.
        rows: Scalar int32.
        count: Columns in all.
        block: Columns at once.
        k_prime: Scalar int32, at least 1; more than `count` means all.

    Returns:
        Columns and scores of the best, `[rows, min(k_prime, count)]`, in descending order; equal scores are
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
