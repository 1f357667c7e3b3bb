"""Where token vectors come from: anything that yields them in blocks, in the order of the corpus.

Also what every index asks of them. Knows nothing of indexes or TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from xtr_tf.errors import InputError


class VectorSource(Protocol):
    """Token vectors of a corpus that need not fit in memory.

    Attributes:
        num_tokens: Vectors in all.
        dim: Width of a vector.
        encoder_fingerprint: What made them; queries must come from the same encoder.
        document_offsets: `[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`.

    A source may have `pieces`, too, `[tokens]` integers: ids of the vocabulary, which are counted.
    """

    num_tokens: int
    dim: int
    encoder_fingerprint: str

    @property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64."""
        ...

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields `[tokens, dim]` float vectors and `[tokens]` document ordinals, in order."""
        ...

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the vectors of some tokens, `[count, dim]` float32."""
        ...


class ArrayVectors:
    """Token vectors in one NumPy array, in memory or mapped from a file.

    Args:
        vectors: `[tokens, dim]` float16 or float32.
        document_of_token: `[tokens]` integers, ascending from 0.
        num_documents: Documents in all, more than the last ordinal where the last ones have no tokens.
        encoder_fingerprint: What made the vectors.
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
        """`[documents + 1]` int64."""
        return np.searchsorted(self._document_of_token, np.arange(self.num_documents + 1))

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields float32 vectors and document ordinals, at most `size` tokens at a time."""
        for start in range(0, self.num_tokens, size):
            rows = slice(start, start + size)
            yield self.vectors[rows].astype(np.float32), self._document_of_token[rows]

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the vectors of some tokens, `[count, dim]` float32."""
        return self.vectors[tokens].astype(np.float32)


def require_tokens(num_tokens: int) -> None:
    """Raises `InputError` unless there is something to index."""
    if not num_tokens:
        raise InputError(
            "An index needs at least one token; encode a corpus with text first. Received: 0 tokens."
        )


def require_finite(vectors: np.ndarray) -> None:
    """Raises `InputError` unless all vectors are finite."""
    if not np.isfinite(vectors).all():
        raise InputError("Token vectors must be finite; encode the corpus again. Received: NaN or infinity.")
