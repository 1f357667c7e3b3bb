"""Decides whether a ranking is the expected one. Documents with close scores may be in either order.

This is the only place that decides it, for the export gate and for tests. Needs only NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ranking_problems(
    expected_scores: Sequence[float] | np.ndarray, ordinals: Sequence[int] | np.ndarray, tolerance: float
) -> list[str]:
    """Returns how a ranking differs from the order of the expected scores, apart from ties.

    Args:
        expected_scores: `[documents]`, the score of each document; NaN or -inf for documents that are not
            candidates.
        ordinals: `[depth]`, the ranking, with -1 after the last document if there are too few.
        tolerance: Documents whose expected scores differ by at most this may be in either order.

    Returns:
        One phrase per difference; an empty list if the ranking is the expected one.

    Example:
        >>> ranking_problems([0.5, 0.9, 0.5000001], [1, 0, 2], tolerance=1e-6)
        []
    """
    scores = np.asarray(expected_scores, np.float64)
    ranked = np.asarray(ordinals, np.int64)
    candidates = np.isfinite(scores)
    length = min(len(ranked), int(candidates.sum()))
    found, rest = ranked[:length], ranked[length:]
    if (rest != -1).any():
        return [f"only {length} documents could be ranked"]
    if ((found < 0) | (found >= len(scores))).any():
        return ["not all that is ranked are documents"]
    if len(set(found.tolist())) < length:
        return ["a document is listed twice"]
    if not candidates[found].all():
        return ["not all documents are candidates"]
    if not length:
        return []
    best_below = np.maximum.accumulate(scores[found][::-1])[::-1]
    too_high = np.flatnonzero(best_below - scores[found] > tolerance)
    if len(too_high):
        return [f"the document at rank {rank} ranks too high" for rank in too_high]
    candidates[found] = False
    left_out = scores[candidates].max(initial=-np.inf)
    lowest = scores[found].min()
    if left_out > lowest + tolerance:
        return [f"a document of score {left_out:.6f} was left out, and one of {lowest:.6f} was not"]
    return []
