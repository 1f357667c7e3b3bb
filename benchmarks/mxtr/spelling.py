"""Vectors of words made of their character n-grams, so that forms of a word are close to each other.

BM25 over n-grams adds up the parts of a word that a document has, and rare parts count more. The cosine of
two of these vectors is much the same. They are random, and nothing is learned.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xtr_tf.lexical.terms import fold, words
from xtr_tf.training.data.teacher_vectors import TeacherTokens, unit

SIZES = (3, 4)
BUCKETS = 1 << 18
RAREST, COMMONEST = 1e-5, 0.5  # share of a language's words; n-grams beyond count the same
_UNSPACED = "\u0e00"  # no script that separates words by spaces comes later, except Hangul
_HANGUL = ("\uac00", "\ud7a3")


class Spelling:
    """Texts to the vectors of their words. In scripts without spaces, words have none.

    Args:
        lists: Of each language, its `words` and their `frequencies`.
        dim: Width of a vector.
    """

    def __init__(self, lists: Iterable[Mapping[str, Any]], dim: int) -> None:
        self._vectors = np.random.default_rng(0).standard_normal((BUCKETS, dim)).astype(np.float32)
        most = np.zeros(BUCKETS)
        for own in lists:
            shares = np.zeros(BUCKETS)
            for word, frequency in zip(own["words"], own["frequencies"], strict=True):
                shares[np.unique(_buckets(word))] += frequency
            most = np.maximum(most, shares)  # as common as in the language that has it most often
        self._weights = np.sqrt(-np.log(np.clip(most, RAREST, COMMONEST))).astype(np.float32)
        self._known: dict[str, np.ndarray] = {}
        self._nothing = np.zeros(dim, np.float16)

    def tokens(self, text: str) -> TeacherTokens:
        """Returns a text's words and their vectors."""
        folded, place = fold(text), 0
        spans, vectors = [], []
        for word in words(text):
            place = folded.index(word, place)
            spans.append((place, place + len(word)))
            vectors.append(self.vector(word))
            place += len(word)
        found = np.array(vectors, np.float16).reshape(len(spans), len(self._nothing))
        return TeacherTokens(np.array(spans, np.int32).reshape(-1, 2), found)

    def vector(self, word: str) -> np.ndarray:
        """Returns the vector of a word in small letters, `[dim]` float16 of unit length, or zero."""
        if word not in self._known:
            spaced = max(word) < _UNSPACED or _HANGUL[0] <= min(word) <= max(word) <= _HANGUL[1]
            own = _buckets(word)
            made = unit((self._weights[own] @ self._vectors[own])[None])[0]
            self._known[word] = made.astype(np.float16) if spaced else self._nothing
        return self._known[word]


def _buckets(word: str) -> list[int]:
    padded = f" {word} "
    grams = [padded[at : at + size] for size in SIZES for at in range(max(len(padded) - size, 0) + 1)]
    return [zlib.crc32(gram.encode()) % BUCKETS for gram in grams]
