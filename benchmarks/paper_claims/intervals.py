"""What a few seeds say about a difference: its mean, a 95% interval, and whether it reaches a threshold.

The interval is Student's, over seeds. It contains the variation from run to run, but not that from query to
query: all runs answer the same queries. Knows nothing about analyses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

_LEVEL = 0.95


class Interval(NamedTuple):
    """A mean over seeds with its 95% interval, which is unlimited for a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def interval(values: Sequence[float]) -> Interval:
    """The mean of one value per seed, and its interval."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, -math.inf, math.inf)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(values) - 1)) * error
    return Interval(mean, mean - half, mean + half)


class Comparison(NamedTuple):
    """A difference that a claim says to be above a threshold.

    Attributes:
        difference: Over seeds.
        threshold: What it has to reach.
        or_equal: Whether reaching the threshold is enough.
    """

    difference: Interval
    threshold: float = 0.0
    or_equal: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the difference is on the claimed side; None if its interval contains the threshold."""
        _, low, high = self.difference
        if low > self.threshold or (self.or_equal and low == self.threshold):
            return True
        return False if high < self.threshold else None

    def __str__(self) -> str:
        return f"{self.difference} {'≥' if self.or_equal else '>'} {self.threshold:g}?"


def above(values: Sequence[float], threshold: float = 0.0, or_equal: bool = False) -> Comparison:
    """Compares one difference per seed with a threshold."""
    return Comparison(interval(values), threshold, or_equal)


def all_hold(comparisons: Iterable[Comparison]) -> bool | None:
    """Whether all comparisons hold: False if one does not, None if one is undecided and none fails."""
    held = [comparison.holds for comparison in comparisons]
    if False in held:
        return False
    return None if None in held else True
