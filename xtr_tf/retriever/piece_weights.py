"""Weights of query tokens, by the number of documents that have their pieces. Computed in the graph.

The formula is that of `xtr_tf.scoring.reference.idf_weights`, its NumPy twin. Knows nothing about text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.scoring.reference import BACKGROUND_SHARE


class PieceStatistics(NamedTuple):
    """Statistics of pieces, in the shape of the ids.

    Attributes:
        documents: int32, number of documents in the index that have the piece.
        background: float32, share of background texts that have it; 0 if it is not known.
    """

    documents: tf.Tensor
    background: tf.Tensor


class PieceWeights(tf.Module):
    """The frequencies of pieces.

    Args:
        frequencies: `[vocabulary]` integers, number of documents that have each piece.
        num_documents: Number of all documents.
        background: `[vocabulary]` floats, share of background texts that have each piece, or None.
        own_frequencies: `[vocabulary]` integers, frequencies in the retriever's own documents, if they are a
            partition of those that `frequencies` counts; None if they are all of them.
    """

    def __init__(
        self,
        frequencies: np.ndarray,
        num_documents: int,
        background: np.ndarray | None,
        own_frequencies: np.ndarray | None = None,
    ) -> None:
        super().__init__(name="piece_weights")
        self.num_documents = num_documents
        self.frequencies = tf.Variable(
            np.asarray(frequencies, np.int32), trainable=False, name="piece_frequencies"
        )
        self.own_frequencies = self.frequencies
        if own_frequencies is not None:
            self.own_frequencies = tf.Variable(
                np.asarray(own_frequencies, np.int32), trainable=False, name="own_piece_frequencies"
            )
        self.background: tf.Variable | None = None
        if background is not None:
            self.background = tf.Variable(
                np.asarray(background, np.float32), trainable=False, name="piece_background"
            )

    def look_up(self, ids: tf.Tensor) -> PieceStatistics:
        """Returns statistics of pieces in the retriever's own documents.

        Args:
            ids: int32 piece ids, in any shape.

        Returns:
            The statistics, in the same shape.
        """
        return PieceStatistics(tf.gather(self.own_frequencies, ids), self._background_of(ids))

    def idf(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the weights of pieces.

        Args:
            ids: int32 piece ids, in any shape.

        Returns:
            Positive float32, in the same shape.
        """
        expected = tf.cast(tf.gather(self.frequencies, ids), tf.float32)
        if self.background is not None:
            of_background = BACKGROUND_SHARE * self.num_documents * self._background_of(ids)
            expected = (expected + of_background) / (1 + BACKGROUND_SHARE)
        return tf.math.log1p((self.num_documents - expected + 0.5) / (expected + 0.5))

    def _background_of(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.zeros(tf.shape(ids)) if self.background is None else tf.gather(self.background, ids)
