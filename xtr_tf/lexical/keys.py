"""The terms of many texts at once, as numbers. Documents are indexed by these numbers.

The key of a term is a polynomial of its code points modulo 2^64. NumPy and TensorFlow compute the same keys,
without a table of strings. In about one of ten million corpora, two of a million terms share a key.
`xtr_tf.retriever.query_terms` computes the same in a graph. `terms.py` defines what terms are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xtr_tf.lexical.terms import SEPARATOR, SPACED, characters

# An arbitrary odd 64-bit number without a pattern.
_BASE = 0x9E3779B97F4A7C15
#: Powers repeat after this many characters of a term.
PERIOD = 128
#: Powers of the base, `[PERIOD]` uint64.
POWERS = np.array([pow(_BASE, place, 1 << 64) for place in range(PERIOD)], np.uint64)
SPACE = np.uint64(32)
# Characters that are processed together. As many as fit into the cache of a processor.
_BLOCK = 1 << 16


def key_of(term: str) -> int:
    """Returns the key of one term, computed character by character.

    Args:
        term: A term, as `terms.py` defines it.

    Returns:
        A signed 64-bit number.
    """
    total = sum(ord(character) * int(POWERS[place % PERIOD]) for place, character in enumerate(term))
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


class Terms(NamedTuple):
    """The terms of several texts.

    Attributes:
        keys: `[terms]` int64, text by text, in the order of the terms in each text.
        texts: `[terms]` int64, the text that each term belongs to, counted from 0.
    """

    keys: np.ndarray
    texts: np.ndarray


def find_terms(texts: Sequence[str], lexical: str) -> Terms:
    """Finds the terms of texts.

    Args:
        texts: Any strings.
        lexical: `words` or `ngrams`.

    Returns:
        The keys of the terms of all texts, and the text of each.
    """
    find = _find_words if lexical == "words" else _find_ngrams
    keys, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first, block in _blocks(texts):
        # NUL is a separator: it ends the last word of a text.
        codes = np.frombuffer("\0".join([*block, ""]).encode("utf-32-le"), np.uint32)
        table = characters()
        found, places = find(table.kinds[codes], table.folded[codes].astype(np.uint64))
        ends = np.cumsum([len(text) + 1 for text in block])
        keys.append(found.view(np.int64))
        owners.append(first + np.searchsorted(ends, places, side="right"))
    return Terms(np.concatenate(keys), np.concatenate(owners))


def _blocks(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields the position of the first text of a block, and the block: texts that follow each other."""
    first = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        if size >= _BLOCK:
            yield first, texts[first : place + 1]
            first, size = place + 1, 0
    if first < len(texts):
        yield first, texts[first:]


def _find_words(kinds: np.ndarray, folded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the keys of words, and the position where each word begins."""
    inside = kinds != SEPARATOR
    begins = inside & ~_before(inside)
    starts = np.flatnonzero(begins)
    if not len(starts):
        return np.zeros(0, np.uint64), starts
    places = np.arange(len(kinds))
    of_word = places - np.maximum.accumulate(np.where(begins, places, 0))
    return np.add.reduceat(np.where(inside, folded * POWERS[of_word % PERIOD], np.uint64(0)), starts), starts


def _find_ngrams(kinds: np.ndarray, folded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the keys of n-grams, and a position for each.

    The position is that of the first character in scripts written without spaces, and of the second in
    others.
    """
    begins, ends = kinds != _before(kinds), kinds != _after(kinds)
    anchors = np.flatnonzero((kinds != SEPARATOR) & (begins | ~ends))
    spaced = kinds == SPACED
    following = _after(folded)
    nothing = np.uint64(0)
    second = np.where(ends, np.where(spaced, SPACE, nothing), following)
    third = np.where(ends, nothing, np.where(_after(ends), SPACE, _after(following)))
    first = np.where(begins, SPACE, _before(folded))
    # Both are sums in ascending powers. An absent character counts as 0.
    two = folded + second * POWERS[1]
    four = first + folded * POWERS[1] + second * POWERS[2] + third * POWERS[3]
    return np.where(spaced, four, two)[anchors], anchors


def _before(values: np.ndarray) -> np.ndarray:
    """Returns the left neighbour of each value, and 0 for the first."""
    return np.concatenate([np.zeros(1, values.dtype), values[:-1]])


def _after(values: np.ndarray) -> np.ndarray:
    """Returns the right neighbour of each value, and 0 for the last."""
    return np.concatenate([values[1:], np.zeros(1, values.dtype)])
