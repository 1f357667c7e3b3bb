"""What an evaluation needs of a model: vectors of queries and of a corpus."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from xtr_tf.corpus.document import Document
from xtr_tf.evaluation.token_index import TokenIndex


@dataclasses.dataclass(frozen=True)
class EncodedQuery:
    """The tokens of one query.

    Attributes:
        vectors: `[tokens, dim]` float32; none for a query without text.
        pieces: `[tokens]` int32 ids of the vocabulary, or None where the encoder does not tell.
        words: The pieces as strings, empty where the encoder does not tell.
    """

    vectors: np.ndarray
    pieces: np.ndarray | None = None
    words: tuple[str, ...] = ()


class TokenEncoder(Protocol):
    """Encodes texts. A query without text has no tokens, as in a served model."""

    def encode_queries(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """The tokens of each query, in order."""

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> TokenIndex:
        """The tokens of a corpus; `dataset` is named if they are too many."""
