"""How numbers are compared: tolerances from the sizes of sums, and rankings up to ties.

Processors and libraries add the terms of a sum in different orders. Two such sums are never compared bit for
bit, and two documents whose scores agree within that rounding may be in either order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xtr_tf.scoring.rankings import ranking_problems

_EPSILON = float(np.finfo(np.float32).eps)


def rounding(terms: int, size: Any = 1.0) -> Any:
    """How far two float32 sums of the same terms may differ, whatever the order of addition.

    Each of the two is at most `terms` half units in the last place from the true sum.

    Args:
        terms: how many products or numbers are added; those of sums of sums counted together.
        size: the sum of the terms' absolute values, a number or an array; 1 bounds that of two unit vectors.
    """
    return terms * _EPSILON * size


def network_rounding(terms: int) -> float:
    """How far two float32 results of one network may differ, relative to their length.

    The errors of successive sums are independent of each other and grow like a random walk; the bound that
    `rounding` gives would be a hundred times what is ever seen. Four standard deviations.

    Args:
        terms: those of all sums on the longest path through the network.
    """
    return 4 * math.sqrt(terms) * _EPSILON


def assert_same_ranking(
    expected_scores: Sequence[float] | np.ndarray, ordinals: Sequence[int] | np.ndarray, tolerance: float
) -> None:
    """Asserts that `ordinals` rank documents by their expected scores, but for the order of ties.

    Args:
        expected_scores: `[documents]`, the score of each; NaN or -inf for one that is no candidate.
        ordinals: `[depth]`, the ranking, with -1 after the last document where there are too few.
        tolerance: documents whose scores differ by no more may be in either order.
    """
    problems = ranking_problems(expected_scores, ordinals, tolerance)
    assert not problems, f"{problems} Received: {np.asarray(ordinals).tolist()}"
