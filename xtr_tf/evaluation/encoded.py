"""A corpus for exact evaluation: token vectors in memory.

Knows nothing about encoders, files or scoring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class CorpusTokens:
    """All tokens of some documents, document after document.

    Attributes:
        documents: In order of their ordinals.
        vectors: `[tokens, dim]` float32.
        offsets: `[documents + 1]` int64: tokens of document `i` are those from `[i]` to `[i + 1]`.
        pieces: `[tokens]` int32 ids of the vocabulary, or None if unknown.
        spans: `[tokens, 2]` int32 characters of each document's `full_text`, or None.
        cut_documents: Documents that the encoder may have cut, because they fill its longest input.
    """

    documents: Sequence[Document]
    vectors: np.ndarray
    offsets: np.ndarray
    pieces: np.ndarray | None = None
    spans: np.ndarray | None = None
    cut_documents: int = 0

    def __post_init__(self) -> None:
        lengths = np.diff(self.offsets)
        if len(lengths) != len(self.documents) or not len(lengths) or lengths.min() < 1:
            raise InputError(
                "Every document needs at least one token. "
                f"Received: {len(self.documents)} documents, {np.count_nonzero(lengths)} with tokens."
            )
        if self.offsets[-1] != len(self.vectors):
            raise InputError(
                "Documents and vectors must have the same number of tokens. "
                f"Received: {self.offsets[-1]} and {len(self.vectors)}."
            )

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents."""
        return len(self.vectors)

    @property
    def document_ids(self) -> list[str]:
        """Ids by ordinal."""
        return [document.id for document in self.documents]

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32 ordinals."""
        return np.repeat(np.arange(len(self.documents), dtype=np.int32), np.diff(self.offsets))


#: About 10 GB of vectors of 128 dimensions.
MAX_TOKENS = 20_000_000


def check_size(tokens: int, dataset: str) -> None:
    """Checks that the tokens of a corpus can be held in memory.

    Args:
        tokens: Number of tokens.
        dataset: Name of the corpus, for the message.

    Raises:
        InputError: There are more than `MAX_TOKENS`.
    """
    if tokens > MAX_TOKENS:
        raise InputError(
            f"The corpus has more than {MAX_TOKENS:,} tokens, too many for exact search in memory; "
            f"build and export an index, and evaluate that. Received: {dataset!r}."
        )
