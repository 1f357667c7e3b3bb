"""Curves of latency against overlap, compared at equal or better overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# What differs between rounds.
_MEASURED = ("p50_ms", "p99_ms", "mean_ms", "scoring_share", "memory_bytes")


class Point(NamedTuple):
    """One setting of an engine."""

    overlap: float
    milliseconds: float


def overlap(found: Sequence[Sequence[int]], exact: np.ndarray) -> float:
    """Mean share of the exact top documents that were found."""
    return float(np.mean([len(set(a) & set(b.tolist())) / len(b) for a, b in zip(found, exact, strict=True)]))


def reciprocal_rank(found: Sequence[Sequence[int]], gold: Sequence[set[int]]) -> float:
    """Mean reciprocal rank of the first relevant document among the top ones."""
    ranks = [
        next((1 / (rank + 1) for rank, document in enumerate(own) if document in relevant), 0.0)
        for own, relevant in zip(found, gold, strict=True)
    ]
    return float(np.mean(ranks))


def median_of_rounds(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record per setting, with the median of every measurement over the rounds."""
    settings: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        key = tuple(record[name] for name in ("engine", "threads", "setting"))
        settings.setdefault(key, []).append(record)
    return [
        {
            name: float(np.median([record[name] for record in own])) if name in _MEASURED else value
            for name, value in own[0].items()
        }
        for _, own in sorted(settings.items(), key=lambda item: item[0][:2])
    ]


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other point beats in both respects, by increasing overlap and latency."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.milliseconds, -point.overlap)):
        if not best or point.overlap > best[-1].overlap:
            best.append(point)
    return best


def milliseconds_at(points: Sequence[Point], wanted: float) -> float | None:
    """Latency of a curve at an overlap, interpolated between the settings around it.

    Below its lowest setting a curve is as fast as that setting, so that no engine gets credit for a
    speed that was not measured. Above its highest it has no value.
    """
    curve = frontier(points)
    if not curve or wanted > curve[-1].overlap:
        return None
    return float(np.interp(wanted, [p.overlap for p in curve], [p.milliseconds for p in curve]))


def ratios(ours: Sequence[Point], theirs: Sequence[Point]) -> list[tuple[float, float]]:
    """How many times faster we are, at the overlap of each point on their frontier that we reach.

    Returns:
        Pairs of overlap and ratio.
    """
    found = []
    for point in frontier(theirs):
        own = milliseconds_at(ours, point.overlap)
        if own is not None:
            found.append((point.overlap, point.milliseconds / own))
    return found


def worst_ratio(ours: Sequence[Point], theirs: Sequence[Point], least_overlap: float = 0.0) -> float:
    """The smallest of `ratios` from an overlap on; NaN if there is none."""
    found = [ratio for reached, ratio in ratios(ours, theirs) if reached >= least_overlap]
    return min(found, default=float("nan"))


def points_of(records: Sequence[dict[str, Any]], yardstick: str, threads: int, *engines: str) -> list[Point]:
    """The points of some engines by one measure (`overlap_xtr` or `overlap_colbert`)."""
    return [
        Point(record[yardstick], record["p50_ms"])
        for record in records
        if record["engine"] in engines and record["threads"] == threads and record.get(yardstick) is not None
    ]
