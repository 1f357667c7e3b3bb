"""Sources of token vectors: anything that yields them in blocks, in the order of the corpus.

Also the requirements of every index for its vectors. Knows nothing about indexes or TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from xtr_tf.errors import InputError


class VectorSource(Protocol):
    """Token vectors of a corpus that need not fit in memory.

    Attributes:
        num_tokens: Number of all vectors.
        dim: Width of a vector.
        encoder_fingerprint: Fingerprint of the encoder that made them. Queries must come from the same
            encoder.
        document_offsets: `[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`.

    A source may also have `pieces`, `[tokens]` integers: ids in the vocabulary, to be counted; and
    `token_lengths`, if its vectors have other lengths than 1.
    """

    num_tokens: int
    dim: int
    encoder_fingerprint: str

    @property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64."""
        ...

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields `[tokens, dim]` float vectors and `[tokens]` document ordinals, in order.

        Args:
            size: Maximum number of tokens per block.
        """
        ...

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the vectors of some tokens.

        Args:
            tokens: `[count]` integers, token ordinals.

        Returns:
            `[count, dim]` float32.
        """
        ...


class ArrayVectors:
    """Token vectors in one NumPy array, in memory or memory-mapped.

    Args:
        vectors: `[tokens, dim]` float16 or float32.
        document_of_token: `[tokens]` integers, ascending from 0.
        num_documents: Number of all documents, if the last ones have no tokens; by default, the last ordinal
            plus 1.
        encoder_fingerprint: Fingerprint of the encoder that made the vectors.

    Raises:
        InputError: If the arrays have the wrong shape, type or order, or if `num_documents` is too small.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        document_of_token: np.ndarray,
        num_documents: int | None = None,
        encoder_fingerprint: str = "",
    ) -> None:
        if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
            raise InputError(
                "Token vectors must be a [tokens, dim] array of floats. "
                f"Received: shape {vectors.shape} of {vectors.dtype}."
            )
        if document_of_token.shape != vectors.shape[:1]:
            raise InputError(
                f"Every token needs a document: {len(vectors)} ordinals are expected. "
                f"Received: shape {document_of_token.shape}."
            )
        if len(vectors) and (document_of_token[0] < 0 or (np.diff(document_of_token) < 0).any()):
            raise InputError(
                "Document ordinals of tokens must ascend from 0, in the order of the corpus. "
                f"Received: {document_of_token[:8].tolist()}..."
            )
        self.vectors = vectors
        self.num_tokens, self.dim = (int(size) for size in vectors.shape)
        self.encoder_fingerprint = encoder_fingerprint
        self._document_of_token = document_of_token
        least = int(document_of_token[-1]) + 1 if self.num_tokens else 0
        self.num_documents = least if num_documents is None else num_documents
        if self.num_documents < least:
            raise InputError(
                f"`num_documents` must be at least {least}, by the ordinals. Received: {num_documents}."
            )

    @property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`."""
        return np.searchsorted(self._document_of_token, np.arange(self.num_documents + 1))

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields float32 vectors and document ordinals in order.

        Args:
            size: Maximum number of tokens per block.

        Yields:
            `[tokens, dim]` float32 vectors and `[tokens]` document ordinals.
        """
        for start in range(0, self.num_tokens, size):
            rows = slice(start, start + size)
            yield self.vectors[rows].astype(np.float32), self._document_of_token[rows]

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the vectors of some tokens.

        Args:
            tokens: `[count]` integers, token ordinals.

        Returns:
            `[count, dim]` float32.
        """
        return self.vectors[tokens].astype(np.float32)


def require_tokens(num_tokens: int) -> None:
    """Checks that there is something to index.

    Args:
        num_tokens: Number of tokens.

    Raises:
        InputError: If there are none.
    """
    if not num_tokens:
        raise InputError(
            "An index needs at least one token; encode a corpus with text first. Received: 0 tokens."
        )


def require_finite(vectors: np.ndarray) -> None:
    """Checks that all vectors are finite.

    Args:
        vectors: `[tokens, dim]` floats.

    Raises:
        InputError: If a value is NaN or infinite.
    """
    if not np.isfinite(vectors).all():
        raise InputError("Token vectors must be finite; encode the corpus again. Received: NaN or infinity.")
