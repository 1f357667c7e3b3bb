"""Which pieces of other languages stand for which English pieces: IBM Model 1 on parallel sentences.

[Brown et al., 1993](https://aclanthology.org/J93-2003/), by expectation and maximisation: every piece of a
foreign sentence is explained by one of the English sentence's pieces, or by none. Knows pieces only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

_ROUNDS = 6
# Further pieces of a sentence are left out, because pairs grow with the product of both lengths.
LONGEST = 48


class Translations(NamedTuple):
    """Pairs of pieces, a foreign one and an English one, each pair once.

    Attributes:
        foreign: `[pairs]` int32, ids of pieces.
        english: `[pairs]` int32; 0 stands for "none".
        probability: `[pairs]` float32; those of a foreign piece sum to 1.
        count: `[vocabulary]` float32, sentences that have each foreign piece.
    """

    foreign: np.ndarray
    english: np.ndarray
    probability: np.ndarray
    count: np.ndarray


def translations(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], vocabulary_size: int, rounds: int = _ROUNDS
) -> Translations:
    """The English pieces that each foreign piece stands for.

    Args:
        pairs: For each sentence its foreign and its English pieces, int32.
        vocabulary_size: Number of pieces.
        rounds: Rounds of expectation and maximisation.

    Returns:
        The probabilities p(English piece | foreign piece).
    """
    foreign = [np.unique(own[:LONGEST]).astype(np.int64) for own, _ in pairs]
    english = [np.unique(np.append(other[:LONGEST], 0)).astype(np.int64) for _, other in pairs]
    keys = np.concatenate(
        [(f[:, None] * vocabulary_size + e[None, :]).ravel() for f, e in zip(foreign, english, strict=True)]
    )
    links, link_of = np.unique(keys, return_inverse=True)
    widths = np.array([len(e) for f, e in zip(foreign, english, strict=True) for _ in f], np.int64)
    of_foreign, of_english = links // vocabulary_size, links % vocabulary_size
    given_english = np.ones(len(links))  # p(foreign piece | English piece), by which a piece is explained
    for _ in range(rounds):
        counts = _explained(link_of, widths, given_english)
        given_english = counts / np.bincount(of_english, counts, vocabulary_size)[of_english]
    sums = np.bincount(of_foreign, counts, vocabulary_size)
    return Translations(
        of_foreign.astype(np.int32),
        of_english.astype(np.int32),
        (counts / sums[of_foreign]).astype(np.float32),
        sums.astype(np.float32),
    )


@numba.njit(cache=True)
def _explained(link_of: np.ndarray, widths: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Expected uses of each link: every foreign piece of every sentence shares itself out."""
    counts = np.zeros(len(probability))
    start = 0
    for width in widths:
        total = 0.0
        for k in range(start, start + width):
            total += probability[link_of[k]]
        for k in range(start, start + width):
            counts[link_of[k]] += probability[link_of[k]] / total
        start += width
    return counts
