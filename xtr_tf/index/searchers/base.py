"""The interface of all token searchers, and the number of leaves that a search probes.

Knows nothing about how tokens are stored or how documents are scored.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import tensorflow as tf

from xtr_tf.index.rules import SCORED_DIRECTLY, SPARE_DEVIATIONS
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.direct import padded_hits, search_directly
from xtr_tf.scoring.token_hits import TokenHits

# The parts of `TokenHits`, as branches of a graph return them.
Hits = tuple[tf.Tensor, ...]


class TokenSearcher(tf.Module, abc.ABC):
    """Finds the `k_prime` document tokens with the largest inner product for each query token.

    A searcher stores its index in `tf.Variable`s (never in graph constants). So it can be an attribute of a
    `tf.Module` that is saved, and it returns the same results in every loader.

    Attributes:
        num_tokens: Number of document tokens in the index.
        dim: Width of a token vector.

    Example:
        >>> searcher = ExactSearcher(vectors)
        >>> hits = searcher.search(queries, tf.constant(1000), tf.constant(0))
        >>> hits.scores.shape
        TensorShape([32, 1000])
    """

    num_tokens: int
    dim: int

    def search(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor | None = None,
    ) -> TokenHits:
        """Searches all query tokens of a batch at once.

        Args:
            query_vectors: `[rows, dim]` float32, the valid query tokens of all queries, flattened. There must
                be at least one row, because ScaNN refuses a search without queries.
            k_prime: Scalar int32, at least 1. If it is more than the number of tokens, all tokens are
                returned.
            leaves: Scalar int32, the number of leaves to probe; 0 for the default of the index. A searcher
                without leaves ignores it.
            row_lengths: `[queries]` int32, the number of rows per query, so that the hits of a query do not
                depend on other queries; None if all rows are one query.

        Returns:
            The hits, `[rows, columns]`.

        Raises:
            tf.errors.InvalidArgumentError: If `k_prime` or `leaves` is out of range, or if a vector is not
                finite. Inside a graph, it is raised when the graph runs.
        """
        query_vectors, k_prime, leaves, row_lengths = self._checked(
            query_vectors, k_prime, leaves, row_lengths
        )
        return self._search(query_vectors, k_prime, leaves, row_lengths)

    def search_allowed(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor | None,
        allowed: AllowedTokens,
    ) -> TokenHits:
        """Finds about the best `k_prime` of the allowed tokens, as an index of only these tokens would.

        Args:
            query_vectors: `[rows, dim]` float32.
            k_prime: Scalar int32, at least 1.
            leaves: Scalar int32, the number of leaves to probe; 0 for the default of the index, which then
                probes more.
            row_lengths: `[queries]` int32, the number of rows per query; None if all rows are one query.
            allowed: The allowed tokens.

        Returns:
            The hits, `[rows, columns]`, only of allowed tokens.

        Raises:
            tf.errors.InvalidArgumentError: As for `search`.
        """
        query_vectors, k_prime, leaves, row_lengths = self._checked(
            query_vectors, k_prime, leaves, row_lengths
        )
        return self._search_allowed(query_vectors, k_prime, leaves, row_lengths, allowed)

    def _checked(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor | None,
    ) -> tuple[tf.Tensor, ...]:
        k_prime = tf.convert_to_tensor(k_prime, tf.int32)
        leaves = tf.convert_to_tensor(leaves, tf.int32)
        query_vectors = tf.ensure_shape(query_vectors, [None, self.dim])
        checks = [
            tf.debugging.Assert(k_prime >= 1, ["`k_prime` must be at least 1. Received:", k_prime]),
            tf.debugging.Assert(leaves >= 0, ["`leaves` must be 0 (automatic) or more. Received:", leaves]),
            tf.debugging.Assert(
                tf.reduce_all(tf.math.is_finite(query_vectors)),
                ["Query vectors must be finite; encode the query again. Received: NaN or infinity"],
            ),
        ]
        if row_lengths is None:
            row_lengths = tf.shape(query_vectors)[:1]
        with tf.control_dependencies([check for check in checks if check is not None]):
            return (
                tf.identity(query_vectors),
                tf.minimum(k_prime, self.num_tokens),
                tf.identity(leaves),
                row_lengths,
            )

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor | None:
        """Returns the vectors of tokens, as precisely as the index stores them.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32, or None if the index stores only codes.
        """
        return None

    def approximate_vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the vectors that the index uses for scoring.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32.
        """
        vectors = self.vectors_of(tokens)
        assert vectors is not None, "a searcher that keeps only codes decodes them"
        return vectors

    def _search_allowed(
        self,
        query_vectors: tf.Tensor,
        k_prime: tf.Tensor,
        leaves: tf.Tensor,
        row_lengths: tf.Tensor,
        allowed: AllowedTokens,
    ) -> TokenHits:
        """Scores few tokens directly, and searches many in the way that is best for the index."""
        count = allowed.count

        def directly() -> Hits:
            return tuple(search_directly(query_vectors, allowed.ordinals, k_prime, self.approximate_vectors))

        def broadly() -> Hits:
            return self._search_broadly(query_vectors, k_prime, leaves, row_lengths, allowed, count, directly)

        hits = TokenHits(*tf.cond(count <= self._most_directly(k_prime), directly, broadly))
        # The branches lose the static shapes.
        matrix, vector = [None, None], [None]
        shapes = TokenHits(matrix, matrix, matrix, vector)
        return TokenHits(*(tf.ensure_shape(part, shape) for part, shape in zip(hits, shapes, strict=True)))

    def _most_directly(self, k_prime: tf.Tensor) -> tf.Tensor:
        """Returns up to how many allowed tokens scoring one by one is faster: scalar int32."""
        return tf.constant(SCORED_DIRECTLY)

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
        """Searches if many tokens are allowed: retrieves more tokens than needed and drops the others.

        If fewer than half of k' are left, because the query is about documents that are not allowed, all
        allowed tokens are scored instead.

        Args:
            query_vectors: `[rows, dim]` float32.
            k_prime: Scalar int32.
            leaves: Scalar int32; 0 for the default of the index.
            row_lengths: Number of rows per query.
            allowed: The allowed tokens.
            count: Number of allowed tokens.
            directly: Scores all of them.
        """
        share = tf.cast(count, tf.float32) / self.num_tokens
        wanted = tf.cast(k_prime, tf.float32)
        more = tf.cast(tf.math.ceil((wanted + SPARE_DEVIATIONS * tf.sqrt(wanted)) / share), tf.int32)
        hits = self._search(query_vectors, tf.minimum(more, self.num_tokens), leaves, row_lengths)
        valid = hits.valid & allowed.includes(hits.token_ids)
        lengths = tf.math.count_nonzero(valid, axis=1)

        def drop_others() -> Hits:
            # Few are left, so everything after this is cheap. They are still in descending order.
            places = tf.where(tf.reshape(valid, [-1]))[:, 0]
            tokens, scores = (
                tf.gather(tf.reshape(part, [-1]), places) for part in (hits.token_ids, hits.scores)
            )
            return tuple(padded_hits(tokens, scores, lengths, k_prime))

        enough = 2 * tf.reduce_min(lengths) >= tf.cast(tf.minimum(k_prime, count), tf.int64)
        return tf.cond(enough, drop_others, directly)

    @abc.abstractmethod
    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        """Searches with checked arguments: `1 <= k_prime <= num_tokens`, `leaves >= 0`.

        Hits are in descending order, unless a searcher has its own way to search many allowed tokens.
        """


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """How many leaves a search probes: as the request says, otherwise as the index says, otherwise by a rule.

    The rule takes a share of the leaves, or more if k' needs more: leaves with at least `tokens_per_k_prime`
    times k' tokens.

    Attributes:
        num_leaves: Number of all leaves.
        num_tokens: Number of all tokens.
        configured: The setting of the index; 0 for none.
        share: Minimum share of the leaves, by the rule.
        tokens_per_k_prime: Tokens to score per token to retrieve, by the rule.
    """

    num_leaves: int
    num_tokens: int
    configured: int
    share: float
    tokens_per_k_prime: float

    def leaves_to_search(self, requested: tf.Tensor, k_prime: tf.Tensor) -> tf.Tensor:
        """Returns the number of leaves to probe.

        Args:
            requested: Scalar int32; 0 for the setting of the index or the rule.
            k_prime: Scalar int32.

        Returns:
            Scalar int32, from 1 to `num_leaves`.
        """
        per_k_prime = self.tokens_per_k_prime * self.num_leaves / self.num_tokens
        needed = tf.cast(tf.math.ceil(tf.cast(k_prime, tf.float32) * per_k_prime), tf.int32)
        by_rule = tf.maximum(needed, round(self.share * self.num_leaves))
        default = tf.constant(self.configured) if self.configured else by_rule
        return tf.clip_by_value(tf.where(requested > 0, requested, default), 1, self.num_leaves)
