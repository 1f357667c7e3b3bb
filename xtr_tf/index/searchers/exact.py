"""Brute force in stock TensorFlow ops: slow and exact. Every other searcher is compared with it.

Has no leaves, and knows nothing about them.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.base import TokenSearcher
from xtr_tf.index.searchers.direct import best_in_blocks
from xtr_tf.index.vector_source import require_finite
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded

# Similarities in memory at a time: 64 MiB of float32, for any number of query tokens and documents.
_MAX_SIMILARITIES = 1 << 24


class ExactSearcher(TokenSearcher):
    """Scores every token, block by block, and merges a running top-k'.

    Equal scores are ranked by token order. Apart from the index itself, memory is bounded by one block of
    similarities and `[rows, 2 k']` candidates.

    Args:
        vectors: `[tokens, dim]` float array of token vectors.
        dtype: Type to store them as: `float32`, `float16` or `bfloat16`.

    Raises:
        InputError: If the vectors are empty, not finite or not a `[tokens, dim]` array of floats, or if the
            dtype is another one.

    Example:
        >>> searcher = ExactSearcher(np.eye(3, dtype=np.float32))
        >>> hits = searcher.search(tf.constant([[0.6, 0.8, 0.0]]), tf.constant(2), tf.constant(0))
        >>> hits.token_ids.numpy().tolist()
        [[1, 0]]
    """

    def __init__(self, vectors: np.ndarray, dtype: str = "float32") -> None:
        super().__init__(name="exact_searcher")
        check_vectors(vectors)
        if dtype not in ("float32", "float16", "bfloat16"):
            raise InputError(f"An exact index keeps float32, float16 or bfloat16. Received: {dtype!r}.")
        self.num_tokens, self.dim = (int(size) for size in vectors.shape)
        kept = tf.as_dtype(dtype)
        self.vectors = tf.Variable(vectors.astype(kept.as_numpy_dtype), trainable=False, name="vectors")

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of tokens.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32.
        """
        return tf.cast(tf.gather(self.vectors, tokens), tf.float32)

    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        return self._search_all(query_vectors, k_prime, None)

    def _search_allowed(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor,
        allowed: AllowedTokens,
    ) -> TokenHits:
        return self._search_all(query_vectors, k_prime, allowed.mask)

    def _search_all(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, allowed: tf.Tensor | None
    ) -> TokenHits:
        """Searches all tokens, or those that are true in `allowed`, `[tokens]` bool."""
        rows = tf.shape(query_vectors)[0]
        block = tf.clip_by_value(_MAX_SIMILARITIES // tf.maximum(rows, 1), 1024, self.num_tokens)

        def similarities(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            vectors = tf.cast(self.vectors[start:end], tf.float32)
            products = tf.matmul(query_vectors, vectors, transpose_b=True)
            return products if allowed is None else tf.where(allowed[start:end], products, -float("inf"))

        ids, scores = best_in_blocks(similarities, rows, self.num_tokens, block, k_prime)
        valid = tf.ones_like(ids, tf.bool) if allowed is None else scores > -float("inf")
        return hits_from_padded(ids, scores, valid)


def check_vectors(vectors: np.ndarray) -> None:
    """Checks that vectors are a non-empty `[tokens, dim]` array of finite floats.

    Args:
        vectors: The array to check.

    Raises:
        InputError: If they are not.
    """
    is_float = np.issubdtype(vectors.dtype, np.floating) or vectors.dtype == tf.bfloat16.as_numpy_dtype
    if vectors.ndim != 2 or not is_float:
        raise InputError(
            "Token vectors must be a [tokens, dim] array of floats. "
            f"Received: shape {vectors.shape} of {vectors.dtype}."
        )
    if 0 in vectors.shape:
        raise InputError(
            "An index needs at least one token; encode a corpus with text first. "
            f"Received: shape {vectors.shape}."
        )
    require_finite(vectors)
