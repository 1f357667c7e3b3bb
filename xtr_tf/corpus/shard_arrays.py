"""The token vectors of some documents in memory: what an encoder makes and a shard's files hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xtr_tf.corpus.document import DocumentRecord
from xtr_tf.errors import InputError

VECTOR_DTYPES = ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class ShardArrays:
    """Tokens of consecutive documents, passage after passage, in the order of the corpus.

    Attributes:
        documents: The documents, which own one passage or more each.
        vectors: `[tokens, dim]` floats of unit length.
        pieces: `[tokens]` int32, ids of the vocabulary.
        spans: `[tokens, 2]` int32, first character and the one after the last, in the
            document's `full_text`.
        positions: `[tokens]` int32, the token's place in its document, counted before any
            splitting or pruning. Tokens in the overlap of two passages have equal positions.
        passage_tokens: `[passages]` int32, how many tokens each passage has.
        passage_documents: `[passages]` int32, index into `documents`, never decreasing.
    """

    documents: Sequence[DocumentRecord]
    vectors: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray
    positions: np.ndarray
    passage_tokens: np.ndarray
    passage_documents: np.ndarray

    def __post_init__(self) -> None:
        tokens, passages = len(self.vectors), len(self.passage_tokens)
        consistent = (
            self.vectors.ndim == 2
            and self.pieces.shape == self.positions.shape == (tokens,)
            and self.spans.shape == (tokens, 2)
            and self.passage_documents.shape == (passages,)
            and int(self.passage_tokens.sum()) == tokens
        )
        if not consistent:
            shapes = {name: getattr(self, name).shape for name in ARRAYS}
            raise InputError(f"The arrays of a shard must agree in their lengths. Received: {shapes}.")
        owners = np.unique(self.passage_documents)
        if np.any(np.diff(self.passage_documents) < 0) or not np.array_equal(
            owners, np.arange(len(self.documents))
        ):
            raise InputError(
                "The passages of a shard must follow its documents' order, each document with one at least. "
                f"Received: passages of {len(owners)} documents for {len(self.documents)} documents."
            )

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, index into `documents`."""
        return np.repeat(self.passage_documents, self.passage_tokens)


# The arrays of a shard by file name, with the type each is stored as (vectors choose their own).
ARRAYS = {
    "vectors": None,
    "pieces": np.int32,
    "spans": np.int32,
    "positions": np.int32,
    "passage_tokens": np.int32,
    "passage_documents": np.int32,
}
