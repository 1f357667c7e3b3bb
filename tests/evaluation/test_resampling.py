"""Intervals and p-values against SciPy and against all permutations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from xtr_tf.evaluation.statistics import bootstrap, group_mean, holm, interval, p_value, randomisation

ONE_GROUP = [""] * 200


def test_group_mean_is_the_mean_of_means() -> None:
    values = np.array([1.0, 1.0, 0.0, 0.5])
    assert group_mean(values, ["a", "a", "a", "b"]) == pytest.approx((2 / 3 + 0.5) / 2)
    assert group_mean(values, [""] * 4) == pytest.approx(values.mean())


def test_bootstrap_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).beta(0.5, 0.5, 200)
    low, high = interval(bootstrap(values[:, None], ONE_GROUP, samples=20_000))
    expected = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", random_state=2)
    assert low[0] == pytest.approx(expected.confidence_interval.low, abs=3e-3)
    assert high[0] == pytest.approx(expected.confidence_interval.high, abs=3e-3)


def test_bootstrap_draws_within_groups_and_is_repeatable() -> None:
    values = np.array([[0.0], [0.0], [1.0]])
    replicates = bootstrap(values, ["a", "a", "b"], samples=50)
    assert (replicates == 0.5).all(), "each group always has its own mean"
    mixed = np.random.default_rng(0).random((200, 2))
    assert (bootstrap(mixed, ONE_GROUP, 100, seed=5) == bootstrap(mixed, ONE_GROUP, 100, seed=5)).all()
    assert (bootstrap(mixed, ONE_GROUP, 100, seed=5) != bootstrap(mixed, ONE_GROUP, 100, seed=6)).any()


def test_p_value_agrees_with_all_permutations() -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, 12)
    signs = np.array(list(itertools.product([-1, 1], repeat=12)))
    exact = np.mean(np.abs(signs @ differences / 12) >= abs(differences.mean()) - 1e-12)
    found = p_value(differences.mean(), randomisation(differences, [""] * 12, samples=40_000))
    assert found == pytest.approx(exact, abs=0.01)


def test_p_value_agrees_with_scipy() -> None:
    generator = np.random.default_rng(4)
    first, second = generator.random(200), generator.random(200) + 0.05
    result = stats.permutation_test(
        (first, second),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        random_state=1,
    )
    found = p_value((first - second).mean(), randomisation(first - second, ONE_GROUP, samples=20_000))
    assert found == pytest.approx(result.pvalue, abs=0.01)


def test_equal_systems_do_not_differ_and_p_is_never_zero() -> None:
    zeros = np.zeros(50)
    assert p_value(0.0, randomisation(zeros, [""] * 50, samples=100)) == 1
    assert p_value(1.0, randomisation(np.ones(50), [""] * 50, samples=99)) == 1 / 100


def test_holm_adjustment() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
