"""How the search benchmark compares engines: interpolated, at equal or better overlap."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def curves(benchmark_module):
    return benchmark_module("search", "curves")


def points(curves, *pairs):
    return [curves.Point(*pair) for pair in pairs]


def test_settings_that_another_beats_are_not_part_of_a_curve(curves):
    found = curves.frontier(points(curves, (0.9, 4.0), (0.8, 2.0), (0.85, 5.0), (0.95, 9.0), (0.8, 3.0)))
    assert found == points(curves, (0.8, 2.0), (0.9, 4.0), (0.95, 9.0))


def test_latency_is_interpolated_and_never_extrapolated(curves):
    curve = points(curves, (0.8, 2.0), (0.9, 4.0))
    assert curves.milliseconds_at(curve, 0.85) == pytest.approx(3.0)
    assert curves.milliseconds_at(curve, 0.5) == 2.0
    assert curves.milliseconds_at(curve, 0.91) is None
    assert curves.milliseconds_at([], 0.5) is None


def test_ratios_skip_what_we_do_not_reach(curves):
    ours, theirs = points(curves, (0.8, 2.0), (0.9, 4.0)), points(curves, (0.85, 6.0), (0.99, 8.0))
    assert curves.ratios(ours, theirs) == [(0.85, pytest.approx(2.0))]


def test_the_worst_ratio_is_of_every_point_from_an_overlap_on(curves):
    ours = points(curves, (0.8, 2.0), (0.9, 4.0))
    theirs = points(curves, (0.7, 1.0), (0.8, 6.0), (0.9, 8.0), (0.99, 9.0))
    assert curves.worst_ratio(ours, theirs) == pytest.approx(0.5)
    assert curves.worst_ratio(ours, theirs, 0.75) == pytest.approx(2.0)
    assert np.isnan(curves.worst_ratio(ours, theirs, 0.95))


def test_overlap_and_reciprocal_rank(curves):
    exact = np.array([[1, 2], [3, 4]])
    assert curves.overlap([[2, 1], [3, 9]], exact) == 0.75
    assert curves.reciprocal_rank([[5, 1], [3, 9], [7]], [{1}, {3}, {0}]) == pytest.approx(0.5)


def test_rounds_are_joined_by_their_median(curves):
    rounds = [
        {"engine": "a", "threads": 1, "setting": "x", "p50_ms": p50, "found": [[1]], "disk_bytes": 7}
        for p50 in (3.0, 9.0, 2.0)
    ]
    other = {**rounds[0], "setting": "y", "p50_ms": 5.0}
    assert curves.median_of_rounds([*rounds, other]) == [{**rounds[0], "p50_ms": 3.0}, other]
