"""BM25 in the graph: term postings in variables, and the scores of a query for all documents with stock ops.

`xtr_tf.index.term_postings` defines postings and is the NumPy twin. Knows nothing about text.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from xtr_tf.index.term_postings import IMPACT_SCALE, TermPostings
from xtr_tf.retriever.query_terms import QueryTerms, TermFinder


class LexicalPart(tf.Module):
    """The term postings of documents, and their BM25 scores.

    Args:
        postings: Term postings of all documents, or of a part of a collection.
        lexical: `words` or `ngrams`, as for the documents.
    """

    def __init__(self, postings: TermPostings, lexical: str) -> None:
        super().__init__(name="lexical_part")
        self._find_terms = TermFinder(lexical)
        self.num_documents = postings.num_documents
        # No text has the key 0. It keeps look-ups within bounds if documents have no terms at all.
        terms = postings.terms if len(postings.terms) else np.zeros(1, np.int64)
        offsets = postings.offsets if len(postings.terms) else np.zeros(2, np.int64)
        small = offsets[-1] < np.iinfo(np.int32).max
        self.terms = _variable(terms, "lexical_terms")
        self.offsets = _variable(offsets.astype(np.int32 if small else np.int64), "lexical_offsets")
        self.documents = _variable(postings.documents, "lexical_documents")
        self.impacts = _variable(postings.impacts, "lexical_impacts")
        self.frequencies: tf.Variable | None = None
        self._counted = postings.num_documents
        if (whole := postings.of_collection) is not None:
            self._counted = whole.num_documents
            frequencies = whole.frequencies if len(postings.terms) else np.zeros(1, np.int64)
            self.frequencies = _variable(frequencies.astype(np.int32), "lexical_frequencies")

    @property
    def num_bytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(int(np.prod(variable.shape)) * variable.dtype.size for variable in self.variables)

    def terms_of(self, queries: tf.Tensor) -> QueryTerms:
        """Returns the terms of queries.

        Args:
            queries: `[batch]` strings.

        Returns:
            The keys of all terms, and the query of each.
        """
        return self._find_terms(queries)

    def scores(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns BM25 of one query for every document.

        Args:
            keys: `[terms]` int64, the terms of the query. A term counts as often as it occurs.

        Returns:
            `[documents]` float32, 0 for documents without any of the terms.
        """
        distinct, _, counts = tf.unique_with_counts(keys)
        places = tf.minimum(tf.searchsorted(self.terms, distinct), self.terms.shape[0] - 1)
        known = tf.gather(self.terms, places) == distinct
        places, counts = tf.boolean_mask(places, known), tf.boolean_mask(counts, known)
        starts, ends = tf.gather(self.offsets, places), tf.gather(self.offsets, places + 1)
        lengths = ends - starts
        counted = lengths if self.frequencies is None else tf.gather(self.frequencies, places)
        frequencies = tf.cast(counted, tf.float32)
        idf = tf.math.log1p((self._counted - frequencies + 0.5) / (frequencies + 0.5))
        weights = idf * tf.cast(counts, tf.float32) / IMPACT_SCALE
        # The postings of all terms, term by term.
        firsts = tf.cumsum(lengths, exclusive=True)
        total = tf.reduce_sum(lengths)
        term = _segments(firsts, total)
        rows = tf.range(total) + tf.gather(starts - firsts, term)
        impacts = tf.cast(tf.gather(self.impacts, rows), tf.float32)
        documents = tf.cast(tf.gather(self.documents, rows), tf.int32)
        return tf.math.unsorted_segment_sum(tf.gather(weights, term) * impacts, documents, self.num_documents)


def _segments(firsts: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    """Returns `[total]` int32: the list of each entry, from the first entries of non-empty lists in a row."""
    begins = tf.scatter_nd(firsts[1:, tf.newaxis], tf.ones_like(firsts[1:], tf.int32), [total])
    return tf.cumsum(begins)


def _variable(values: np.ndarray, name: str) -> tf.Variable:
    return tf.Variable(np.asarray(values), trainable=False, name=name)
