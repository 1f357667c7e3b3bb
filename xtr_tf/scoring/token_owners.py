"""The document of every token, in a quarter of a byte per token.

Hits are spread over the whole index. With four bytes per token, nearly every look-up has to wait for memory.
Tokens are in the order of their documents, so it is enough to know where documents begin: one bit per token,
and one number per block of tokens. Such a table is small enough for the cache.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

_BLOCK_BITS = 5
_BLOCK = 1 << _BLOCK_BITS

#: From token ordinals, in any shape, to the ordinals of their documents.
DocumentOf = Callable[[tf.Tensor], tf.Tensor]


class TokenOwners(tf.Module):
    """Finds the documents of tokens.

    Args:
        document_of_token: `[tokens]` integers, ascending. There may be documents without tokens.

    Example:
        >>> TokenOwners(np.array([0, 0, 1, 3])).look_up(tf.constant([[3, 0], [2, 1]]))
        <tf.Tensor: shape=(2, 2), dtype=int32, numpy=
        array([[3, 0],
               [1, 0]], dtype=int32)>
    """

    def __init__(self, document_of_token: np.ndarray) -> None:
        super().__init__(name="token_owners")
        documents, ranks = np.unique(document_of_token, return_inverse=True)
        self.blocks = tf.Variable(_packed(ranks), trainable=False, name="owner_blocks")
        self.documents: tf.Variable | None = None
        if not np.array_equal(documents, np.arange(len(documents))):
            self.documents = tf.Variable(documents.astype(np.int32), trainable=False, name="owners")

    def look_up(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the documents of tokens.

        Args:
            tokens: int32 token ordinals, in any shape.

        Returns:
            int32 document ordinals, in the same shape.
        """
        blocks = tf.gather(self.blocks, tf.bitwise.right_shift(tokens, _BLOCK_BITS))
        last, beginnings = tf.unstack(blocks, axis=-1)
        later = tf.bitwise.right_shift(beginnings, tf.bitwise.bitwise_and(tokens, _BLOCK - 1))
        ranks = last - tf.cast(tf.raw_ops.PopulationCount(x=later), tf.int32)
        return ranks if self.documents is None else tf.gather(self.documents, ranks)


def _packed(documents: np.ndarray) -> np.ndarray:
    """Returns `[blocks, 2]` int32: the document of the last token of a block, and where documents begin.

    Bit `i` of the latter says that a document begins with token `i + 1` of the block. So the documents that
    begin after a token are the bits that are left after a shift by its place.
    """
    padded = np.pad(documents, (0, -len(documents) % _BLOCK), mode="edge").reshape(-1, _BLOCK)
    beginnings = np.diff(padded, axis=1) @ (1 << np.arange(_BLOCK - 1, dtype=np.int64))
    return np.stack([padded[:, -1], beginnings], axis=1).astype(np.int32)
