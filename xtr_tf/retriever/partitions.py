"""Splits the documents of a corpus among models, each of which fits on one machine.

A partition is a sequence of consecutive, whole documents. So ordinals of a partition continue those of the
partitions before it, and a ranking by ordinals is the same as in one index. Knows only counts.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NoReturn

import numpy as np

from xtr_tf.errors import InputError

#: Ordinals of documents and tokens are int32 in a model.
MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Partition:
    """Consecutive documents of a corpus.

    Attributes:
        first_document: Ordinal of the first document.
        document_offsets: `[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`, counted in
            the corpus.
    """

    first_document: int
    document_offsets: np.ndarray

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.document_offsets) - 1

    @property
    def last_document(self) -> int:
        """The ordinal after that of the last document."""
        return self.first_document + self.num_documents

    @property
    def tokens(self) -> slice:
        """Its tokens, counted in the corpus."""
        return slice(int(self.document_offsets[0]), int(self.document_offsets[-1]))

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return self.tokens.stop - self.tokens.start

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, document ordinals, counted in the partition."""
        return np.repeat(np.arange(self.num_documents, dtype=np.int32), np.diff(self.document_offsets))


def whole(document_offsets: np.ndarray) -> Partition:
    """Returns all documents as one partition.

    Args:
        document_offsets: `[documents + 1]` int64, offsets of the corpus.

    Returns:
        The partition.

    Raises:
        InputError: If one model cannot hold them, or if there are no tokens.
    """
    return split(document_offsets, 1)[0]


def split(document_offsets: np.ndarray, count: int) -> list[Partition]:
    """Splits a corpus into partitions with about the same number of tokens.

    Args:
        document_offsets: `[documents + 1]` int64, offsets of the corpus.
        count: Number of partitions.

    Returns:
        The partitions, in order.

    Raises:
        InputError: If `count` is below 1, if a partition would have no tokens, or if one would have more
            tokens or documents than a model can hold.
    """
    if count < 1:
        raise InputError(f"There must be at least one partition. Received: {count}.")
    offsets = np.asarray(document_offsets, np.int64)
    # A partition may begin with any document that has tokens.
    starts = np.flatnonzero(np.diff(offsets))
    if len(starts) < count:
        raise InputError(
            f"A partition would be empty: {len(starts)} documents have tokens, so there can be at most "
            f"{len(starts)} partitions. Received: {count}."
        )
    partitions = _balanced(offsets, starts, count)
    if not _fit(partitions):
        _refuse(offsets, starts, partitions)
    return partitions


def _balanced(offsets: np.ndarray, starts: np.ndarray, count: int) -> list[Partition]:
    """Ends every partition with the document that is nearest to its share of the tokens."""
    ideal = offsets[-1] * np.arange(1, count) / count
    chosen = np.searchsorted(offsets[starts], ideal)
    after, before = offsets[starts[np.minimum(chosen, len(starts) - 1)]], offsets[starts[chosen - 1]]
    chosen -= ideal - before < np.abs(after - ideal)
    # Every partition has at least one document, even if others are very long.
    numbers = np.arange(1, count)
    chosen = np.maximum.accumulate(np.maximum(chosen - numbers, 0)) + numbers
    chosen = np.minimum(chosen, len(starts) - count + numbers)
    bounds = [0, *starts[chosen].tolist(), len(offsets) - 1]
    return [Partition(first, offsets[first : last + 1]) for first, last in itertools.pairwise(bounds)]


def _fit(partitions: list[Partition]) -> bool:
    return all(max(part.num_tokens, part.num_documents) <= MOST for part in partitions)


def _refuse(offsets: np.ndarray, starts: np.ndarray, partitions: list[Partition]) -> NoReturn:
    """Raises an error that says how many partitions are needed."""
    largest = max(max(part.num_tokens, part.num_documents) for part in partitions)
    for count in range(len(partitions) + 1, len(starts) + 1):
        if _fit(_balanced(offsets, starts, count)):
            raise InputError(
                f"A model holds at most {MOST} tokens and documents; export {count} partitions "
                f"(--partitions {count}). Received: {len(partitions)}, the largest with {largest} of them."
            )
    raise InputError(
        f"A document is never cut, and one has more tokens than a model holds ({MOST}); split the document. "
        f"Received: {int(np.diff(offsets).max())} tokens."
    )
