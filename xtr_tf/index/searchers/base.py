"""What every token searcher promises, and how many leaves a search looks into.

Knows nothing of how tokens are stored, or of how documents are scored.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import tensorflow as tf

from xtr_tf.index.rules import SCORED_DIRECTLY, SPARE_DEVIATIONS
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.direct import search_directly
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded

# The parts of `TokenHits`, as branches of a graph return them.
Hits = tuple[tf.Tensor, ...]


class TokenSearcher(tf.Module, abc.ABC):
    """Finds the `k_prime` document tokens with the largest inner product for each query token.

    A searcher keeps its index in `tf.Variable`s (never in graph constants), so that it can be an
    attribute of a `tf.Module` that is saved, and it answers the same in every loader.

    Attributes:
        num_tokens: Document tokens in the index.
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
            query_vectors: `[rows, dim]` float32, the valid query tokens of all queries, flattened.
            k_prime: Scalar int32, at least 1; more than the index holds means all of it.
            leaves: Scalar int32, the leaves to search; 0 for the index's own rule. A searcher
                without leaves ignores it.
            row_lengths: `[queries]` int32, how many of the rows belong to each query, so that its
                hits do not depend on its neighbours; None for rows of one query.

        Returns:
            The hits, `[rows, columns]`.

        Raises:
            tf.errors.InvalidArgumentError: For an impossible `k_prime` or `leaves`, or a vector
                that is not finite. Inside a graph the error comes when it runs.
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
        """Finds the best `k_prime` of the allowed tokens, or about as many, as an index of only these would.

        Args:
            query_vectors: `[rows, dim]` float32.
            k_prime: Scalar int32, at least 1.
            leaves: 0 for the index's own rule, which then looks into more of them.
            row_lengths: `[queries]` int32.
            allowed: Which tokens.

        Returns:
            The hits, `[rows, columns]`; none of other tokens.
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
        """The vectors of `[any]` token ordinals, `[any, dim]` float32, as near as the index keeps them.

        Returns:
            The vectors, or None where the index keeps only codes.
        """
        return None

    def approximate_vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        """The vectors that the index scores by: of `[any]` token ordinals, `[any, dim]` float32."""
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
        """Scores few tokens directly, and searches many as the index does it best."""
        count = allowed.count

        def directly() -> Hits:
            return tuple(search_directly(query_vectors, allowed.ordinals, k_prime, self.approximate_vectors))

        def broadly() -> Hits:
            return self._search_broadly(query_vectors, k_prime, leaves, row_lengths, allowed, count, directly)

        hits = TokenHits(*tf.cond(count <= self._most_directly(k_prime), directly, broadly))
        # Which the branches forget.
        matrix, vector = [None, None], [None]
        shapes = TokenHits(matrix, matrix, matrix, vector)
        return TokenHits(*(tf.ensure_shape(part, shape) for part, shape in zip(hits, shapes, strict=True)))

    def _most_directly(self, k_prime: tf.Tensor) -> tf.Tensor:
        """How many allowed tokens are scored one by one, because that is the quicker way: scalar int32."""
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
        """Searches where many tokens are allowed: retrieves more than is wanted and drops the others.

        Where fewer than half of k' are left, because the query is about what is not allowed, all allowed
        tokens are scored after all.

        Args:
            query_vectors: `[rows, dim]` float32.
            k_prime: Scalar int32.
            leaves: Scalar int32; 0 for the index's own rule.
            row_lengths: Rows of each query.
            allowed: Which tokens.
            count: Tokens that are allowed.
            directly: Scores all of them.
        """
        share = tf.cast(count, tf.float32) / self.num_tokens
        wanted = tf.cast(k_prime, tf.float32)
        more = tf.cast(tf.math.ceil((wanted + SPARE_DEVIATIONS * tf.sqrt(wanted)) / share), tf.int32)
        hits = self._search(query_vectors, tf.minimum(more, self.num_tokens), leaves, row_lengths)
        valid = hits.valid & allowed.includes(hits.token_ids)
        # Hits come in descending order, so that the best are those with the first places.
        places = tf.cumsum(tf.cast(valid, tf.int32), axis=1)
        least = tf.reduce_min(places[:, -1])
        valid &= places <= k_prime
        return tf.cond(
            2 * least >= tf.minimum(k_prime, count),
            lambda: tuple(hits_from_padded(hits.token_ids, hits.scores, valid)),
            directly,
        )

    @abc.abstractmethod
    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        """Searches with arguments already checked: `1 <= k_prime <= num_tokens`, `leaves >= 0`.

        Hits are in descending order unless a searcher has its own way to search many allowed tokens.
        """


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """How many leaves a search looks into: what the request says, else the index, else a rule.

    The rule takes a share of the leaves, or more where k' needs it: leaves with at least
    `tokens_per_k_prime` times k' tokens.

    Attributes:
        num_leaves: Leaves in all.
        num_tokens: Tokens in all.
        configured: What the index says, 0 for nothing.
        share: Least share of the leaves, by the rule.
        tokens_per_k_prime: Tokens to score for each that is wanted, by the rule.
    """

    num_leaves: int
    num_tokens: int
    configured: int
    share: float
    tokens_per_k_prime: float

    def leaves_to_search(self, requested: tf.Tensor, k_prime: tf.Tensor) -> tf.Tensor:
        """Returns a scalar int32 from 1 to `num_leaves`, for scalars int32; a request of 0 is none.

        Args:
            requested: Scalar int32; 0 leaves it to the rule.
            k_prime: Scalar int32.

        Returns:
            Scalar int32.
        """
        per_k_prime = self.tokens_per_k_prime * self.num_leaves / self.num_tokens
        needed = tf.cast(tf.math.ceil(tf.cast(k_prime, tf.float32) * per_k_prime), tf.int32)
        by_rule = tf.maximum(needed, round(self.share * self.num_leaves))
        default = tf.constant(self.configured) if self.configured else by_rule
        return tf.clip_by_value(tf.where(requested > 0, requested, default), 1, self.num_leaves)
