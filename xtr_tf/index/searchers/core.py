"""An inverted file in stock TensorFlow ops. It runs wherever the tokenizer's op runs, without ScaNN.

Every token of a probed leaf is scored for all tokens of a query at once: one matrix product over the union of
the leaves that the query tokens selected. Tokens above a cut-off count as retrieved, so no exact top-k' is
needed. Vectors are stored as int8 or bfloat16, or as int4 distances from the centre of their leaf. This file
must never import ScaNN or use an op outside core TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from xtr_tf.index.quantizer import INT4_MIDDLE
from xtr_tf.index.rules import CORE_SEARCHED_SHARE, CORE_TOKENS_PER_K_PRIME
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.base import Hits, LeafRule, TokenSearcher
from xtr_tf.index.searchers.direct import above_cut_offs, padded_hits, score_in_blocks
from xtr_tf.index.vector_source import require_tokens
from xtr_tf.scoring.token_hits import TokenHits


class CoreSearcher(TokenSearcher):
    """Gathers the vectors of the nearest leaves and multiplies them with the query.

    About `k_prime` tokens are retrieved per row, and exactly that many for `k_prime` below 256. The cut-off
    is the lowest score among them.

    Args:
        centres: `[leaves, dim]` float32.
        leaf_offsets: `[leaves + 1]` integers; the postings of leaf `i` are `[i]` to `[i + 1]`.
        postings: `[tokens]` int32 token ordinals, sorted by leaf.
        vectors: `[tokens, dim]` int8 or bfloat16, or `[tokens, dim / 2]` uint8 with two int4 values per byte
            (see `TokenQuantizer.to_int4`), in the order of the postings.
        multipliers: `[dim]` float32 scales of int8 and int4 vectors; ignored for bfloat16.
        leaves_to_search: Number of leaves to probe, unless a request has its own; 0 for the rule.
        tokens_in_all: Number of tokens in the whole index if this is a partition, which then follows its
            rule; None otherwise.

    Raises:
        InputError: If there are no tokens.

    Example:
        Three tokens in two leaves, of which one is searched:

        >>> searcher = CoreSearcher(
        ...     centres=np.float32([[1, 0], [0, 1]]),
        ...     leaf_offsets=np.array([0, 2, 3]),
        ...     postings=np.int32([0, 2, 1]),
        ...     vectors=np.int8([[127, 0], [102, 76], [0, 127]]),
        ...     multipliers=np.float32([127, 127]),
        ... )
        >>> hits = searcher.search(tf.constant([[1.0, 0.0]]), tf.constant(3), tf.constant(1))
        >>> hits.token_ids.numpy().tolist()
        [[0, 2]]
    """

    def __init__(
        self,
        centres: np.ndarray,
        leaf_offsets: np.ndarray,
        postings: np.ndarray,
        vectors: np.ndarray,
        multipliers: np.ndarray,
        leaves_to_search: int = 0,
        tokens_in_all: int | None = None,
    ) -> None:
        super().__init__(name="core_searcher")
        self.num_tokens, self.dim = len(vectors), centres.shape[1]
        require_tokens(self.num_tokens)
        self._rule = LeafRule(
            *(len(centres), tokens_in_all or self.num_tokens, leaves_to_search),
            *(CORE_SEARCHED_SHARE, CORE_TOKENS_PER_K_PRIME),
        )
        self._is_int4 = vectors.dtype == np.uint8
        scales = 1.0 / multipliers if vectors.dtype in (np.int8, np.uint8) else np.ones(self.dim)
        self.centres = tf.Variable(centres, trainable=False, name="centres")
        self.leaf_offsets = tf.Variable(leaf_offsets.astype(np.int32), trainable=False, name="leaf_offsets")
        self.vectors = tf.Variable(vectors, trainable=False, name="vectors")
        self.postings = tf.Variable(postings, trainable=False, name="postings")
        self.posting_of_token = tf.Variable(
            np.argsort(postings).astype(np.int32), trainable=False, name="posting_of_token"
        )
        self.scales = tf.Variable(scales.astype(np.float32), trainable=False, name="scales")

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of tokens.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32.
        """
        postings = tf.gather(self.posting_of_token, tokens)
        kept = tf.gather(self.vectors, postings)
        if not self._is_int4:
            return tf.cast(kept, tf.float32) * self.scales
        halves = tf.concat([_low_bits(kept), tf.bitwise.right_shift(kept, 4)], axis=1)
        leaves = tf.searchsorted(self.leaf_offsets, postings, side="right") - 1
        residuals = (tf.cast(halves, tf.float32) - INT4_MIDDLE) * self.scales
        return tf.gather(self.centres, leaves) + residuals

    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        return self._search_postings(
            query_vectors, k_prime, self._rule.leaves_to_search(leaves, k_prime), row_lengths, None
        )

    def _search_broadly(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor,
        allowed: AllowedTokens,
        count: tf.Tensor,
        directly: Callable[[], Hits],
    ) -> Hits:
        """Scores only the allowed tokens, in more leaves."""
        share = tf.cast(count, tf.float32) / self.num_tokens
        needed = tf.cast(tf.math.ceil(tf.cast(k_prime, tf.float32) / share), tf.int32)
        probed = self._rule.leaves_to_search(leaves, tf.minimum(needed, self.num_tokens))
        return tuple(self._search_postings(query_vectors, k_prime, probed, row_lengths, allowed))

    def _search_postings(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor,
        allowed: AllowedTokens | None,
    ) -> TokenHits:
        """Searches this many leaves, and only allowed tokens if `allowed` is not None."""
        row_lengths = tf.boolean_mask(row_lengths, row_lengths > 0)
        queries = tf.size(row_lengths)
        ends = tf.cumsum(row_lengths)

        def search_query(query: tf.Tensor, *hits: tf.TensorArray) -> tuple[tf.Tensor | tf.TensorArray, ...]:
            rows = query_vectors[ends[query] - row_lengths[query] : ends[query]]
            results = self._search_rows(rows, k_prime, leaves, allowed)
            return query + 1, *(array.write(query, part) for array, part in zip(hits, results, strict=True))

        _, *hits = tf.while_loop(
            cond=lambda query, *_: query < queries,
            body=search_query,
            loop_vars=(
                tf.constant(0),
                *(_pieces(dtype, queries) for dtype in (tf.int32, tf.float32, tf.int64)),
            ),
            parallel_iterations=1,
        )
        postings, scores, lengths = (array.concat() for array in hits)
        return padded_hits(tf.gather(self.postings, postings), scores, lengths)

    def _search_rows(
        self, queries: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, allowed: AllowedTokens | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the postings and scores of all hits, row by row, and the number of hits per row."""
        similarities = tf.matmul(queries, self.centres, transpose_b=True)
        nearest = tf.math.top_k(similarities, leaves, sorted=False)
        probed, _ = tf.unique(tf.reshape(nearest.indices, [-1]))
        starts, ends = tf.gather(self.leaf_offsets, probed), tf.gather(self.leaf_offsets, probed + 1)
        ranges = tf.ragged.range(starts, ends)
        postings, leaf_of_posting = ranges.flat_values, ranges.value_rowids()
        if allowed is not None:
            kept = allowed.includes(tf.gather(self.postings, postings))
            postings, leaf_of_posting = (
                tf.boolean_mask(values, kept) for values in (postings, leaf_of_posting)
            )
        scaled = queries * self.scales
        score = self._int4_scores(scaled) if self._is_int4 else self._scores(scaled)
        scores = score_in_blocks(score, postings, tf.shape(queries)[0])
        if self._is_int4:
            of_leaves = tf.transpose(tf.gather(similarities, probed, axis=1))
            scores += tf.gather(of_leaves - INT4_MIDDLE * tf.reduce_sum(scaled, axis=1), leaf_of_posting)
        return above_cut_offs(scores, postings, k_prime)

    def _scores(self, queries: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns a function from postings to the products of their stored values, `[postings, rows]`."""

        def score(postings: tf.Tensor) -> tf.Tensor:
            stored = tf.cast(tf.gather(self.vectors, postings), tf.float32)
            return tf.matmul(stored, queries, transpose_b=True)

        return score

    def _int4_scores(self, queries: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the same function for int4 values, which does not unpack the high bits.

        A byte is `low + 16 * high`, so `high` is `(byte - low) / 16`: bytes and their low bits are enough.
        """
        of_low, of_high = tf.split(queries, 2, axis=1)
        of_low, of_byte = of_low - of_high / 16, of_high / 16

        def score(postings: tf.Tensor) -> tf.Tensor:
            stored = tf.gather(self.vectors, postings)
            low, byte = (tf.cast(part, tf.float32) for part in (_low_bits(stored), stored))
            return tf.matmul(low, of_low, transpose_b=True) + tf.matmul(byte, of_byte, transpose_b=True)

        return score


def _low_bits(values: tf.Tensor) -> tf.Tensor:
    """Returns the low four bits of `[any, width]` uint8."""
    width = values.shape[1]
    if width % 8:
        return tf.bitwise.bitwise_and(values, 15)
    # Eight bytes at a time: TensorFlow computes with single bytes one by one.
    words = tf.bitcast(tf.reshape(values, [-1, width // 8, 8]), tf.int64)
    low = tf.bitwise.bitwise_and(words, 0x0F0F0F0F0F0F0F0F)
    return tf.reshape(tf.bitcast(low, tf.uint8), [-1, width])


def _pieces(dtype: tf.DType, size: tf.Tensor, shape: list[int | None] | None = None) -> tf.TensorArray:
    return tf.TensorArray(dtype, size, infer_shape=False, element_shape=shape or [None])
