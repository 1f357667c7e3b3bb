"""Confidence intervals, and tests of whether two systems differ: bootstrap and randomisation over queries.

A mean is taken over groups (relations, or one group of all queries) with equal weights; queries are drawn
within their group. Replicates of several datasets can be averaged, because each dataset is resampled on its
own. All results depend only on a seed.

Citations: [Sakai, 2006](https://doi.org/10.1145/1148170.1148261) on the bootstrap,
[Smucker et al., 2007](https://doi.org/10.1145/1321440.1321528) on the randomisation test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

BOOTSTRAP_SAMPLES = 1_000
RANDOMISATION_SAMPLES = 10_000

# Numbers drawn at once.
_MAX_DRAWN = 1 << 23


def group_mean(values: np.ndarray, groups: Sequence[str]) -> np.ndarray:
    """The mean over groups of the means within them.

    Args:
        values: `[queries]` or `[queries, columns]`.
        groups: `[queries]` names.

    Returns:
        A scalar or `[columns]`.
    """
    return np.mean([values[members].mean(axis=0) for members in _members(groups)], axis=0)


def bootstrap(
    values: np.ndarray, groups: Sequence[str], samples: int = BOOTSTRAP_SAMPLES, seed: int = 0
) -> np.ndarray:
    """Means of queries drawn with replacement.

    Args:
        values: `[queries, columns]`; the same queries are drawn for all columns.
        groups: `[queries]` names.
        samples: How often to draw.
        seed: Seed of the draws.

    Returns:
        `[samples, columns]`.
    """
    generator = np.random.default_rng(seed)
    members = _members(groups)
    means = np.zeros((samples, values.shape[1]))
    for group in members:
        size = len(group)
        for rows in _blocks(samples, size):
            drawn = generator.integers(size, size=(len(rows), size)) + np.arange(len(rows))[:, None] * size
            counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
            means[rows] += counts @ values[group] / size
    return means / len(members)


def interval(replicates: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """The percentile interval of `[samples, ...]` replicates: its two ends.

    Args:
        replicates: `[samples, ...]`, such as means of bootstrap samples.
        level: The share of samples within the interval.

    Returns:
        The lower and the upper end, each of the shape of a sample.

    Example:
        >>> low, high = interval(np.arange(101.0), level=0.5)
        >>> float(low), float(high)
        (25.0, 75.0)
    """
    tail = (1 - level) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    return low, high


def randomisation(
    differences: np.ndarray, groups: Sequence[str], samples: int = RANDOMISATION_SAMPLES, seed: int = 0
) -> np.ndarray:
    """Mean differences after swapping the two systems at random, query by query.

    Args:
        differences: `[queries]`, one system's value minus the other's.
        groups: `[queries]` names.
        samples: How often to swap.
        seed: Seed of the swaps.

    Returns:
        `[samples]`.
    """
    generator = np.random.default_rng(seed)
    members = _members(groups)
    means = np.zeros(samples)
    for group in members:
        for rows in _blocks(samples, len(group)):
            signs = generator.integers(2, size=(len(rows), len(group)), dtype=np.int8) * 2 - 1
            means[rows] += signs @ differences[group] / len(group)
    return means / len(members)


def p_value(observed: float, replicates: np.ndarray) -> float:
    """The two-sided p-value of an observed mean difference among `randomisation` replicates.

    Args:
        observed: The mean difference.
        replicates: `[samples]`, the mean differences with randomly swapped signs.

    Returns:
        The share of replicates that are at least as extreme, counting the observed one.

    Example:
        >>> p_value(1.0, np.array([0.5, -0.5, 0.2]))
        0.25
    """
    # A replicate that equals the observed value must count, even if its sum was rounded differently.
    extreme = np.abs(replicates) >= abs(observed) - 1e-12
    return float((1 + np.count_nonzero(extreme)) / (1 + len(replicates)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values for their number by [Holm's](https://www.jstor.org/stable/4615733) step-down rule."""
    order = np.argsort(p_values)
    adjusted = np.asarray(p_values, float)[order] * np.arange(len(order), 0, -1)
    result = np.empty(len(order))
    result[order] = np.minimum(np.maximum.accumulate(adjusted), 1.0)
    return result.tolist()


def _members(groups: Sequence[str]) -> list[np.ndarray]:
    _, inverse = np.unique(np.asarray(groups), return_inverse=True)
    return [np.flatnonzero(inverse == group) for group in range(inverse.max() + 1)]


def _blocks(samples: int, width: int) -> Iterator[np.ndarray]:
    step = max(1, _MAX_DRAWN // width)
    for start in range(0, samples, step):
        yield np.arange(start, min(start + step, samples))
