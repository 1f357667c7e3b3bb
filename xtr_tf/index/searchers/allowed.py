"""Which tokens a search may return: those of some documents.

A filter selects documents, and there are many times more tokens. So the cost of everything here depends on
the selected tokens, and nothing reads all tokens unless it must. Knows nothing about filters or vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.scoring.token_owners import DocumentOf


class AllowedTokens(NamedTuple):
    """The tokens of some documents, or those of them in a part of an index.

    Attributes:
        documents: `[documents]` bool, which documents.
        offsets: `[documents + 1]` int32; the tokens of document `i` are `[i]` to `[i + 1]`.
        document_of: Function from token ordinals to the ordinals of their documents.
        first: The first token of the part, which has ordinal 0 there.
        last: The token after the last one of the part; None for all tokens.
    """

    documents: tf.Tensor
    offsets: tf.Tensor
    document_of: DocumentOf
    first: int = 0
    last: int | None = None

    def part(self, first: int, last: int) -> AllowedTokens:
        """Returns the allowed tokens in a part of the index, counted from the first token of the part.

        Args:
            first: The first token of the part.
            last: The token after its last one.

        Returns:
            The allowed tokens of the part.
        """
        return self._replace(first=first, last=last)

    @property
    def count(self) -> tf.Tensor:
        """Scalar int32, the number of allowed tokens."""
        starts, ends = self._bounds()
        return tf.reduce_sum(tf.where(self.documents, ends - starts, 0))

    @property
    def ordinals(self) -> tf.Tensor:
        """`[count]` int32, the ordinals of the allowed tokens, ascending."""
        starts, ends = (tf.boolean_mask(bound, self.documents) for bound in self._bounds())
        return tf.ragged.range(starts, ends).flat_values

    @property
    def mask(self) -> tf.Tensor:
        """`[tokens]` bool, which tokens of the part are allowed."""
        starts, ends = self._bounds()
        return tf.repeat(self.documents, ends - starts)

    def includes(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns which of some tokens are allowed.

        Args:
            tokens: int32 token ordinals, in any shape.

        Returns:
            bool, in the same shape.
        """
        return tf.gather(self.documents, self.document_of(tokens + self.first if self.first else tokens))

    def _bounds(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the first token of each document and the one after its last, counted in the part."""
        offsets = tf.convert_to_tensor(self.offsets)
        if self.last is not None:
            offsets = tf.clip_by_value(offsets, self.first, self.last) - self.first
        return offsets[:-1], offsets[1:]
