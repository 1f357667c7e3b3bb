"""The number of documents that have each piece of the vocabulary: counted, summed and stored with an index.

Knows pieces only as numbers, and nothing about what the counts are used for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xtr_tf.index.folder import TokenIndex, save_array

#: Names of the arrays in an index directory.
FILES = ("piece_ids", "piece_documents")
# Tokens that are sorted at a time.
_BLOCK = 1 << 22


class PieceFrequencies(NamedTuple):
    """Document frequencies of the pieces that occur.

    Attributes:
        pieces: `[occurring]` int32, ascending.
        documents: `[occurring]` int64, the number of documents that have each piece.
    """

    pieces: np.ndarray
    documents: np.ndarray

    @classmethod
    def of(cls, pieces: np.ndarray, document_offsets: np.ndarray) -> PieceFrequencies:
        """Counts the documents of each piece.

        Args:
            pieces: `[tokens]` integers, the pieces of all documents, document by document.
            document_offsets: `[documents + 1]`; tokens of document `i` are `[i]` to `[i + 1]`.

        Returns:
            The frequencies.
        """
        found = []
        first = 0
        while first < len(document_offsets) - 1:
            start = document_offsets[first]
            # As many whole documents as fit, but at least one.
            last = int(np.searchsorted(document_offsets, start + _BLOCK, side="right")) - 1
            last = max(last, first + 1)
            lengths = np.diff(document_offsets[first : last + 1])
            owners = np.repeat(np.arange(last - first, dtype=np.int64), lengths)
            keys = owners << 32 | np.asarray(pieces[start : document_offsets[last]], np.int64)
            found.append(cls(*np.unique(np.unique(keys) & 0xFFFFFFFF, return_counts=True)))
            first = last
        return cls.total(found)

    @classmethod
    def total(cls, parts: Iterable[PieceFrequencies]) -> PieceFrequencies:
        """Adds up the frequencies of parts of a corpus that have no documents in common.

        Args:
            parts: The frequencies of each part.

        Returns:
            The frequencies in the whole corpus.
        """
        parts = list(parts)
        pieces = np.concatenate([part.pieces for part in parts] or [np.zeros(0, np.int32)])
        documents = np.concatenate([part.documents for part in parts] or [np.zeros(0, np.int64)])
        distinct, places = np.unique(pieces, return_inverse=True)
        counts = np.bincount(places, weights=documents, minlength=len(distinct))
        return cls(distinct.astype(np.int32), counts.astype(np.int64))

    def of_vocabulary(self, size: int) -> np.ndarray:
        """Returns the frequencies of all pieces of a vocabulary.

        Args:
            size: Number of pieces in the vocabulary.

        Returns:
            `[size]` int32, 0 for pieces that do not occur.
        """
        counts = np.zeros(size, np.int32)
        counts[self.pieces] = self.documents
        return counts

    def write(self, folder: Path) -> None:
        """Writes the arrays into the folder of an index.

        Args:
            folder: The folder of the index.
        """
        for name, array in zip(FILES, self, strict=True):
            save_array(folder, name, array)

    @classmethod
    def read(cls, index: TokenIndex) -> PieceFrequencies | None:
        """Reads the frequencies stored with an index.

        Args:
            index: The index.

        Returns:
            The frequencies; None if the index was built without the pieces of its tokens.
        """
        if f"{FILES[0]}.npy" not in index.manifest.files:
            return None
        return cls(*(np.asarray(index.array(name)) for name in FILES))
