"""Which tokens a search may return: those of some documents.

A filter is about documents, and tokens are many times as many: everything here costs what is asked for, and
nothing looks at all tokens unless it must. Knows nothing of filters or vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class AllowedTokens(NamedTuple):
    """The tokens of some documents, or those of them in a part of an index.

    Attributes:
        documents: `[documents]` bool, which of them.
        offsets: `[documents + 1]` int32; the tokens of document `i` are `[i]` to `[i + 1]`.
        owners: `[tokens]` int32, the documents of all tokens.
        first: The first token of the part, which is number 0 there.
        last: The one after its last; None for all tokens.
    """

    documents: tf.Tensor
    offsets: tf.Tensor
    owners: tf.Tensor
    first: int = 0
    last: int | None = None

    def part(self, first: int, last: int) -> AllowedTokens:
        """The same of the tokens from `first` to before `last`, which number them from 0."""
        return self._replace(first=first, last=last)

    @property
    def count(self) -> tf.Tensor:
        """Scalar int32, how many there are."""
        starts, ends = self._bounds()
        return tf.reduce_sum(tf.where(self.documents, ends - starts, 0))

    @property
    def ordinals(self) -> tf.Tensor:
        """`[count]` int32, the tokens themselves, ascending."""
        starts, ends = (tf.boolean_mask(bound, self.documents) for bound in self._bounds())
        return tf.ragged.range(starts, ends).flat_values

    @property
    def mask(self) -> tf.Tensor:
        """`[tokens]` bool, which of all there are."""
        return tf.gather(self.documents, self.owners[self.first : self.last])

    def includes(self, tokens: tf.Tensor) -> tf.Tensor:
        """Which of some tokens are among them: of int32 ordinals, bool of the same shape."""
        return tf.gather(
            self.documents, tf.gather(self.owners, tokens + self.first if self.first else tokens)
        )

    def _bounds(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Where the tokens of each document begin and end, within the part and counted from its first."""
        offsets = tf.convert_to_tensor(self.offsets)
        if self.last is not None:
            offsets = tf.clip_by_value(offsets, self.first, self.last) - self.first
        return offsets[:-1], offsets[1:]
