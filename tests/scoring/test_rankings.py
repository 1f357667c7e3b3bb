"""The comparison of rankings forgives ties, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.scoring.rankings import ranking_problems

SCORES = [0.5, 0.9, np.nan, 0.5000001, 0.1, -np.inf]


@pytest.mark.parametrize("ranking", [[1, 3, 0, 4, -1, -1], [1, 0, 3, 4], [1, 0], [1, 3], [1], []])
def test_right_rankings(ranking):
    assert ranking_problems(SCORES, ranking, 1e-6) == []


@pytest.mark.parametrize(
    ("ranking", "problem"),
    [
        ([3, 1, 0, 4], "the document at rank 0 ranks too high"),
        ([1, 3, 4, 0], "the document at rank 2 ranks too high"),
        ([1, 4], "a document of score 0.500000 was left out, and one of 0.100000 was not"),
        ([1, 3, 3, 4], "a document is listed twice"),
        ([1, 3, 0, 2], "not all documents are candidates"),
        ([1, 3, 0, 6], "not all that is ranked are documents"),
        ([1, 3, 0, -1], "not all that is ranked are documents"),
        ([1, 3, 0, 4, 2], "only 4 documents could be ranked"),
    ],
)
def test_wrong_rankings(ranking, problem):
    assert ranking_problems(SCORES, ranking, 1e-6) == [problem]


def test_without_a_tolerance_the_last_bit_counts():
    assert ranking_problems(SCORES, [1, 0, 3], 0.0) == ["the document at rank 1 ranks too high"]
