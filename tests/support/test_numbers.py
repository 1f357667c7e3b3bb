"""The bound on rounding holds for sums in any order, and a wrong ranking fails."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.numbers import assert_same_ranking, rounding


@pytest.mark.parametrize("terms", [8, 128, 4096])
def test_sums_in_any_order_are_within_the_rounding(terms):
    generator = np.random.default_rng(0)
    values = generator.standard_normal(terms).astype(np.float32)
    sums = [np.add.accumulate(generator.permutation(values))[-1] for _ in range(50)]
    assert 0 < np.ptp(sums) < rounding(terms, np.abs(values).sum())


def test_only_ties_may_be_exchanged():
    assert_same_ranking([0.5, 0.9, 0.5000001], [1, 0, 2], 1e-6)
    with pytest.raises(AssertionError, match="ranks too high"):
        assert_same_ranking([0.5, 0.9, 0.5000001], [0, 1, 2], 1e-6)
