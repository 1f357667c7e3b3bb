"""How long the token vectors of a document are: what BM25 knows about a document and cosines do not.

The more tokens a document has, the higher is the best similarity that a query token finds among them by
chance. And a document that repeats a word is more likely to be about it. So the vectors of a document with m
tokens, of which n are the same piece, can be multiplied by

    (m / 128) ** -length_penalty * (1 + repetition_bonus * ln(n))

when they are stored. The end of a text is no piece that repeats: every passage of a long document has one.
Retrieval, scores, explanations and merges use inner products and need not know about lengths. Queries keep
unit vectors. Knows nothing about encoders or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

# The length of a document that gets no penalty. Another number would multiply all scores by the same factor.
_USUAL_TOKENS = 128


class TokenLengths(NamedTuple):
    """The lengths of token vectors.

    Attributes:
        length_penalty: How much less the tokens of long documents count; 0 for not at all.
        repetition_bonus: How much more repeated pieces count; 0 for not at all.

    Example:
        >>> TokenLengths(0.05, 0.1).of(np.array([7, 8, 7, 1]), end_id=1).round(2)
        array([1.27, 1.19, 1.27, 1.19], dtype=float32)
    """

    length_penalty: float = 0.0
    repetition_bonus: float = 0.0

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> TokenLengths:
        """Returns the lengths of vectors by the settings in their manifest; unit length if there are none.

        Args:
            settings: What `EncodingConfig.vector_settings` returned.

        Returns:
            The lengths.
        """
        return cls(*(float(settings.get(name, 0.0)) for name in cls._fields))

    @property
    def are_one(self) -> bool:
        """Whether all vectors have unit length."""
        return not (self.length_penalty or self.repetition_bonus)

    def of(self, pieces: np.ndarray, end_id: int) -> np.ndarray:
        """Returns the lengths of the vectors of one document.

        Args:
            pieces: `[tokens]` ids of the document's pieces.
            end_id: The id of the end of a text.

        Returns:
            `[tokens]` float32.
        """
        _, places, counts = np.unique(pieces, return_inverse=True, return_counts=True)
        repeated = np.where(pieces == end_id, 1, counts[places])
        by_length = (max(len(pieces), 1) / _USUAL_TOKENS) ** -self.length_penalty
        return (by_length * (1 + self.repetition_bonus * np.log(repeated))).astype(np.float32)

    def of_batch(self, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the lengths of the vectors of several documents of one passage each, in a graph.

        Args:
            ids: `[documents, length]` integers, padded.
            mask: `[documents, length]` bool, which positions are tokens.

        Returns:
            `[documents, length]` float32; 1 at the positions of the padding.
        """
        import tensorflow as tf

        valid = tf.cast(mask, tf.float32)
        tokens = tf.maximum(tf.reduce_sum(valid, axis=1, keepdims=True), 1.0)
        lengths = (tokens / _USUAL_TOKENS) ** -self.length_penalty
        if self.repetition_bonus:
            same = tf.cast(ids[:, :, tf.newaxis] == ids[:, tf.newaxis], tf.float32)
            counts = tf.maximum(tf.linalg.matvec(same, valid), 1.0)
            lengths *= 1 + self.repetition_bonus * tf.math.log(counts)
        return tf.where(mask, lengths, 1.0)


#: As in the paper.
UNIT_LENGTH = TokenLengths()
