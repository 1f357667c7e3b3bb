"""BM25's postings: which documents have a term, and its impact in each. Built, stored and scored in NumPy.

    BM25(Q, D) = sum over terms t of Q of  idf(t) * tf / (tf + k1 * (1 - b + b * |D| / mean length))
    idf(t)     = ln(1 + (N - df + 0.5) / (df + 0.5))

This is [Lucene's formula](https://arxiv.org/abs/2407.03618). The fraction, a number between 0 and 1, is the
impact. It is stored in one byte, so the error of a score is at most idf / 510 per term. Building reads the
texts once. It keeps one block of texts and the vocabulary in memory, and writes the counts of each block to a
temporary file. Knows nothing about vectors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex, create_array, save_array
from xtr_tf.lexical.keys import find_terms

#: BM25's saturation of term frequencies, and its penalty for long documents.
K1, B = 0.9, 0.4
#: The stored value of an impact of 1.
IMPACT_SCALE = 255
#: Names of the arrays in an index directory.
FILES = ("lexical_terms", "lexical_offsets", "lexical_documents", "lexical_impacts")
# Characters of documents per block. The terms of a block are sorted together.
_BLOCK = 1 << 23
# Postings that are read at a time.
_POSTINGS = 1 << 24


class TermStatistics(NamedTuple):
    """How common terms are among all documents of a collection, if postings are those of a part of them.

    Attributes:
        frequencies: `[terms]` int64, number of documents that have each term.
        num_documents: Number of all documents.
    """

    frequencies: np.ndarray
    num_documents: int


class TermPostings(NamedTuple):
    """The documents of every term.

    Attributes:
        terms: `[terms]` int64, keys in ascending order.
        offsets: `[terms + 1]` int64; the postings of term `i` are `[i]` to `[i + 1]`.
        documents: `[postings]` uint16, or int32 if uint16 is too small: ordinals, ascending within a term.
        impacts: `[postings]` uint8.
        num_documents: Number of all documents.
        of_collection: Statistics of the collection that the documents are a part of; None if they are all of
            it.
    """

    terms: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray
    impacts: np.ndarray
    num_documents: int
    of_collection: TermStatistics | None = None

    @classmethod
    def read(cls, index: TokenIndex) -> TermPostings | None:
        """Reads the postings of an index, memory-mapped.

        Args:
            index: The index.

        Returns:
            The postings; None for an index without BM25.
        """
        if index.config.lexical == "none":
            return None
        return cls._make([*(index.array(name) for name in FILES), index.num_documents, None])

    @classmethod
    def of(cls, documents: Sequence[DocumentRecord], lexical: str) -> TermPostings:
        """Builds the postings of documents in memory.

        Args:
            documents: Documents with their texts.
            lexical: `words` or `ngrams`.

        Returns:
            The postings.

        Raises:
            InputError: If a document has no text.
        """
        with tempfile.TemporaryDirectory(prefix="xtr_tf-") as work:
            folder = Path(work) / "index"
            folder.mkdir()
            write_term_postings(documents, lexical, folder)
            return cls._make([*(np.load(folder / f"{name}.npy") for name in FILES), len(documents), None])

    def part(self, first: int, last: int) -> TermPostings:
        """Returns the postings of some consecutive documents, whose scores stay those of the collection.

        Args:
            first: Ordinal of the first document.
            last: The ordinal after that of the last document.

        Returns:
            Their postings, with ordinals from 0.
        """
        kept = np.concatenate(
            [
                start + np.flatnonzero((block >= first) & (block < last))
                for start in range(0, max(len(self.documents), 1), _POSTINGS)
                for block in [self.documents[start : start + _POSTINGS]]
            ]
        )
        offsets = np.searchsorted(kept, self.offsets)
        present = np.flatnonzero(np.diff(offsets))
        documents = np.asarray(self.documents[kept], np.int64) - first
        return TermPostings(
            self.terms[present],
            np.append(offsets[present], len(kept)),
            documents.astype(_ordinal_dtype(last - first)),
            self.impacts[kept],
            last - first,
            TermStatistics(np.diff(self.offsets)[present], self.num_documents),
        )

    def scores(self, query: str, lexical: str) -> np.ndarray:
        """Returns BM25 of a query for every document.

        Args:
            query: Any string. A term counts as often as it occurs.
            lexical: `words` or `ngrams`, as for the documents.

        Returns:
            `[documents]` float64, 0 for a document without a term of the query.
        """
        scores = np.zeros(self.num_documents)
        for key in find_terms([query], lexical).keys:
            place = int(np.searchsorted(self.terms, key))
            if place == len(self.terms) or self.terms[place] != key:
                continue
            rows = slice(self.offsets[place], self.offsets[place + 1])
            scores[self.documents[rows]] += self._idf(place) * self.impacts[rows] / IMPACT_SCALE
        return scores

    def _idf(self, place: int) -> np.ndarray:
        if self.of_collection is None:
            return inverse_frequency(self.offsets[place + 1] - self.offsets[place], self.num_documents)
        frequencies, num_documents = self.of_collection
        return inverse_frequency(frequencies[place], num_documents)


def inverse_frequency(documents: np.ndarray | int, num_documents: int) -> np.ndarray:
    """Returns the inverse document frequency (idf) of terms.

    Args:
        documents: Number of documents that have a term; one number or an array.
        num_documents: Number of all documents.

    Returns:
        BM25's idf, in the shape of `documents`.
    """
    return np.log1p((num_documents - documents + 0.5) / (documents + 0.5))


def write_term_postings(documents: Iterable[DocumentRecord], lexical: str, folder: Path) -> None:
    """Reads documents and writes their postings into the folder of an index.

    Args:
        documents: All documents, in order, with their texts.
        lexical: `words` or `ngrams`. With `none`, nothing is read or written.
        folder: The folder of the index.

    Raises:
        InputError: If a document has no text.
    """
    if lexical == "none":
        return
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".lexical-") as work:
        counts = _TermCounts(Path(work))
        for block in _blocks(_texts(documents)):
            counts.add(block, lexical)
        counts.write(folder)


def _texts(documents: Iterable[DocumentRecord]) -> Iterator[str]:
    for document in documents:
        if document.text is None:
            raise InputError(
                "`index.lexical` needs the texts of all documents; encode the corpus with its texts, which "
                f"an export may still leave out. Received: {document.id!r} without a text."
            )
        yield document.full_text


def _blocks(texts: Iterable[str]) -> Iterator[Sequence[str]]:
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


class _TermCounts:
    """How often each term occurs in each document, stored in one file per block."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._blocks = 0
        self._lengths: list[np.ndarray] = []
        self._terms = np.zeros(0, np.int64)
        self._frequencies = np.zeros(0, np.int64)

    def add(self, texts: Sequence[str], lexical: str) -> None:
        first = sum(len(lengths) for lengths in self._lengths)
        keys, owners = find_terms(texts, lexical)
        self._lengths.append(np.bincount(owners, minlength=len(texts)))
        terms, codes = np.unique(keys, return_inverse=True)
        # One number per pair sorts by term, then by document.
        pairs, counts = np.unique(codes.reshape(-1) * len(texts) + owners, return_counts=True)
        codes, owners = np.divmod(pairs, len(texts))
        arrays = {"terms": terms[codes], "documents": first + owners, "counts": counts}
        np.savez(self._work / f"{self._blocks}.npz", **arrays)
        self._blocks += 1
        merged, places = np.unique(np.concatenate([self._terms, terms]), return_inverse=True)
        frequencies = np.zeros(len(merged), np.int64)
        known = len(self._terms)
        frequencies[places.reshape(-1)[:known]] = self._frequencies
        frequencies[places.reshape(-1)[known:]] += np.bincount(codes, minlength=len(terms))
        self._terms, self._frequencies = merged, frequencies

    def write(self, folder: Path) -> None:
        lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths])
        held_back = K1 * (1 - B + B * lengths / max(lengths.mean(), 1))
        offsets = np.concatenate([[0], np.cumsum(self._frequencies)])
        save_array(folder, FILES[0], self._terms)
        save_array(folder, FILES[1], offsets)
        shape = (int(offsets[-1]),)
        documents = create_array(folder, FILES[2], shape, _ordinal_dtype(len(lengths)))
        impacts = create_array(folder, FILES[3], shape, np.dtype(np.uint8))
        ends = offsets[:-1].copy()
        for block in range(self._blocks):
            with np.load(self._work / f"{block}.npz") as arrays:
                terms, owners, counts = arrays["terms"], arrays["documents"], arrays["counts"]
            codes = np.searchsorted(self._terms, terms)
            places = ends[codes] + _rank_among_equal(codes)
            documents[places] = owners
            shares = counts / (counts + held_back[owners])
            impacts[places] = np.maximum(np.round(shares * IMPACT_SCALE), 1)
            ends += np.bincount(codes, minlength=len(ends))
        for array in (documents, impacts):
            array.flush()


def _ordinal_dtype(num_documents: int) -> np.dtype:
    """Returns the smallest type for ordinals of documents."""
    return np.dtype(np.uint16 if num_documents <= 1 << 16 else np.int32)


def _rank_among_equal(values: np.ndarray) -> np.ndarray:
    """Returns how many equal values come before each of some ascending values."""
    return np.arange(len(values)) - np.searchsorted(values, values)
