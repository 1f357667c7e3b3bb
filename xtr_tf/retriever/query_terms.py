"""Finds the terms of queries with stock TensorFlow ops: the twin of `xtr_tf.lexical.keys` in a graph.

`xtr_tf.lexical.terms` provides the kinds of characters as a few thousand ranges of code points. Knows nothing
about documents.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.lexical.keys import PERIOD, POWERS, SPACE
from xtr_tf.lexical.terms import SEPARATOR, SPACED, characters


class QueryTerms(NamedTuple):
    """The terms of a batch of queries.

    Attributes:
        keys: `[terms]` int64, query by query.
        queries: `[terms]` int64, the query that each term belongs to.
    """

    keys: tf.Tensor
    queries: tf.Tensor


class TermFinder(tf.Module):
    """Finds the terms of queries.

    Args:
        lexical: `words` or `ngrams`.
    """

    def __init__(self, lexical: str) -> None:
        super().__init__(name="term_finder")
        self._find = _find_words if lexical == "words" else _find_ngrams
        starts, ranges = characters().ranges()
        self.range_starts = tf.Variable(starts, trainable=False, name="range_starts")
        self.kinds = tf.Variable(ranges.kinds, trainable=False, name="range_kinds")
        self.added = tf.Variable(ranges.folded, trainable=False, name="range_added")

    def __call__(self, queries: tf.Tensor) -> QueryTerms:
        """Finds the terms of queries.

        Args:
            queries: `[batch]` strings. Bytes that are not UTF-8 count as U+FFFD, which is in no term.

        Returns:
            The keys of all terms, and the query of each.
        """
        codes = tf.strings.unicode_decode(queries, "UTF-8")
        # A separator ends the last term of a query.
        codes = tf.concat([codes, tf.zeros([codes.nrows(), 1], tf.int32)], axis=1)
        places = tf.searchsorted(self.range_starts, codes.values, side="right") - 1
        folded = tf.cast(codes.values + tf.gather(self.added, places), tf.uint64)
        keys, anchors = self._find(tf.gather(self.kinds, places), folded)
        return QueryTerms(tf.bitcast(keys, tf.int64), tf.gather(codes.value_rowids(), anchors))


def _find_words(kinds: tf.Tensor, folded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    inside = kinds != SEPARATOR
    begins = inside & (_before(kinds) == SEPARATOR)
    starts = tf.where(begins)[:, 0]
    word = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    place = tf.range(tf.size(kinds, tf.int64)) - tf.gather(
        tf.concat([starts, [0]], axis=0), tf.maximum(word, 0)
    )
    terms = folded * tf.gather(tf.constant(POWERS), place % PERIOD)
    keys = tf.math.unsorted_segment_sum(terms, tf.where(inside, word, -1), tf.size(starts))
    return keys, starts


def _find_ngrams(kinds: tf.Tensor, folded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    begins, ends = kinds != _before(kinds), kinds != _after(kinds)
    anchors = tf.where((kinds != SEPARATOR) & (begins | ~ends))[:, 0]
    spaced = kinds == SPACED
    following = _after(folded)
    space, nothing = tf.constant(SPACE), tf.constant(0, tf.uint64)
    second = tf.where(ends, tf.where(spaced, space, nothing), following)
    third = tf.where(ends, nothing, tf.where(_after(ends), space, _after(following)))
    first = tf.where(begins, space, _before(folded))
    two = folded + second * POWERS[1]
    four = first + folded * POWERS[1] + second * POWERS[2] + third * POWERS[3]
    return tf.gather(tf.where(spaced, four, two), anchors), anchors


def _before(values: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros([1], values.dtype), values[:-1]], axis=0)


def _after(values: tf.Tensor) -> tf.Tensor:
    return tf.concat([values[1:], tf.zeros([1], values.dtype)], axis=0)
