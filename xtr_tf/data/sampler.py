"""Which example stands at which position of the training stream: a pure function of the seed.

No state means nothing to save: any host can compute any part of any batch, and a run resumes
at a step by asking for that step.
"""

from __future__ import annotations

import functools

import numpy as np


class Sampler:
    """Shuffles examples, mixing languages in chosen proportions.

    An epoch is as long as the data. In it, language `l` is drawn in proportion to
    `examples(l) ** (1 / temperature)`, and its examples follow one another in shuffled rounds:
    none comes again before all others of its language have come. At temperature 1 an epoch is
    a permutation of the data.

    Args:
        languages: Language of each example, `[examples]`.
        temperature: At least 1.
        seed: Of the shuffling.
    """

    def __init__(self, languages: np.ndarray, temperature: float, seed: int) -> None:
        self._seed = seed
        self.languages, codes = np.unique(languages, return_inverse=True)
        self._members = [np.flatnonzero(codes == code) for code in range(len(self.languages))]
        sizes = np.array([len(members) for members in self._members], np.float64)
        weights = sizes ** (1 / temperature)
        self._draws = _apportion(weights / weights.sum(), len(codes))
        self._ends = np.cumsum(self._draws)
        self._round = functools.lru_cache(maxsize=2 * len(self._members))(self._shuffled_round)
        self._order = functools.lru_cache(maxsize=2)(self._shuffled_order)

    def __call__(self, position: int) -> tuple[int, int]:
        """The example at `position` of the stream, and how often it has come before."""
        epoch, slot = divmod(position, int(self._ends[-1]))
        draw = self._order(epoch)[slot]
        language = int(np.searchsorted(self._ends, draw, side="right"))
        within = epoch * self._draws[language] + draw - (self._ends[language] - self._draws[language])
        visit, place = divmod(int(within), len(self._members[language]))
        return int(self._round(language, visit)[place]), visit

    def _shuffled_order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self._seed, 0, epoch]).permutation(self._ends[-1])

    def _shuffled_round(self, language: int, visit: int) -> np.ndarray:
        return np.random.default_rng([self._seed, 1, language, visit]).permutation(self._members[language])


def _apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that sum to `total`, each within one of its share."""
    exact = shares * total
    counts = np.floor(exact + 1e-9).astype(np.int64)
    largest_remainders = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[largest_remainders] += 1
    return counts
