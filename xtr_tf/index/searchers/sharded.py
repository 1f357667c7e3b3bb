"""Several searchers over parts of a corpus as one searcher, merged exactly.

Knows nothing about the kind of the searchers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.base import TokenSearcher
from xtr_tf.scoring.token_hits import TokenHits, best_hits


class ShardedSearcher(TokenSearcher):
    """Searches every shard and keeps the best `k_prime` tokens of all of them.

    Cut-offs are those of the merged list, as in an index without shards. So the imputation for a document of
    one shard depends on the tokens of the other shards. `leaves` is the number of leaves per shard.

    Args:
        shards: Searchers of consecutive parts of the corpus, in its order.

    Raises:
        InputError: If there are no shards, or if their widths differ.

    Example:
        >>> from xtr_tf.index.searchers.exact import ExactSearcher
        >>> vectors = np.eye(4, dtype=np.float32)
        >>> searcher = ShardedSearcher([ExactSearcher(vectors[:1]), ExactSearcher(vectors[1:])])
        >>> hits = searcher.search(tf.constant([[0.5, 0.0, 0.8, 0.3]]), tf.constant(2), tf.constant(0))
        >>> hits.token_ids.numpy().tolist()
        [[2, 0]]
    """

    def __init__(self, shards: Sequence[TokenSearcher]) -> None:
        super().__init__(name="sharded_searcher")
        if not shards or any(shard.dim != shards[0].dim for shard in shards):
            raise InputError(
                "Shards must be at least one searcher, all of the same width. "
                f"Received: widths {[shard.dim for shard in shards]}."
            )
        self.shards = list(shards)
        self.num_tokens = sum(shard.num_tokens for shard in shards)
        self.dim = shards[0].dim

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor | None:
        """Returns the vectors of tokens, from the shards that hold them.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32, or None if a shard stores only codes.
        """
        ends = np.cumsum([shard.num_tokens for shard in self.shards])
        owners = tf.searchsorted(tf.constant(ends, tokens.dtype), tokens, side="right")
        positions, vectors = [], []
        for number, shard in enumerate(self.shards):
            of_shard = tf.where(owners == number)[:, 0]
            kept = shard.vectors_of(tf.gather(tokens, of_shard) - (ends[number] - shard.num_tokens))
            if kept is None:
                return None
            positions.append(of_shard)
            vectors.append(kept)
        order = tf.math.invert_permutation(tf.concat(positions, axis=0))
        return tf.gather(tf.concat(vectors, axis=0), order)

    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        return self._merge(
            [shard.search(query_vectors, k_prime, leaves, row_lengths) for shard in self.shards], k_prime
        )

    def _search_allowed(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor,
        allowed: AllowedTokens,
    ) -> TokenHits:
        ends = np.cumsum([shard.num_tokens for shard in self.shards]).tolist()
        hits = [
            shard.search_allowed(
                query_vectors, k_prime, leaves, row_lengths, allowed.part(end - shard.num_tokens, end)
            )
            for shard, end in zip(self.shards, ends, strict=True)
        ]
        return self._merge(hits, k_prime)

    def _merge(self, hits: Sequence[TokenHits], k_prime: tf.Tensor) -> TokenHits:
        """Returns the best `k_prime` of the hits of all shards."""
        firsts = np.cumsum([0, *(shard.num_tokens for shard in self.shards[:-1])])
        ids = tf.concat([own.token_ids + int(first) for own, first in zip(hits, firsts, strict=True)], axis=1)
        scores = tf.concat([own.scores for own in hits], axis=1)
        return best_hits(ids, scores, k_prime)
