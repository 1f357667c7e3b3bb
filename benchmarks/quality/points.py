"""Points of the comparison: one system on one set, its quality and its time; and what sums them up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xtr_tf.collections.dataset import Dataset

ROUNDS, METRIC = 3, "nDCG@10"
REFERENCE = "scann, k' 1,000"
#: Models with one vector per text, by the name of their environment.
ONE_VECTOR = {"minilm": "MiniLM, one vector", "nomic": "nomic, one vector"}

#: From a text to the ids of ten documents, best first.
Search = Callable[[str], Sequence[str]]


class Point(NamedTuple):
    """One system on one set.

    Attributes:
        system: Name of the system, with its settings.
        dataset: Name of the set.
        ndcg: nDCG@10 in percent.
        milliseconds: Median time of a query, the best of several rounds of each.
    """

    system: str
    dataset: str
    ndcg: float
    milliseconds: float


def measured(system: str, dataset: Dataset, search: Search) -> Point:
    """Asks every query several times, and judges the answers."""
    best = dict.fromkeys((query.id for query in dataset.queries), float("inf"))
    answers: dict[str, Sequence[str]] = {}
    for _ in range(ROUNDS):
        for query in dataset.queries:
            started = time.perf_counter()
            answers[query.id] = search(query.text)
            best[query.id] = min(best[query.id], 1000 * (time.perf_counter() - started))
    return judged(system, dataset, answers, statistics.median(best.values()))


def judged(system: str, dataset: Dataset, answers: Mapping[str, Sequence[str]], milliseconds: float) -> Point:
    from xtr_tf.evaluation.metrics import measure
    from xtr_tf.evaluation.run import Run

    run = Run(system, {query: (ids, range(len(ids), 0, -1)) for query, ids in answers.items()})
    ids = [query.id for query in dataset.queries]
    ndcg = 100 * float(measure(run, dataset.judgements, ids, [METRIC])[METRIC].mean())
    point = Point(system, dataset.name, ndcg, milliseconds)
    print(f"{dataset.name}: {system}: {ndcg:.1f}, {milliseconds:.2f} ms", flush=True)
    return point


def table(points: Sequence[Point]) -> str:
    """A Markdown table with one row per system."""
    sets = list(dict.fromkeys(point.dataset for point in points))
    by_place = {(point.system, point.dataset): point for point in points}
    lines = [f"| | {' | '.join(f'{name} | ms' for name in sets)} |", "|---|" + "---:|---:|" * len(sets)]
    for system in dict.fromkeys(point.system for point in points):
        own = [by_place[system, name] for name in sets]
        lines.append(
            f"| {system} | {' | '.join(f'{point.ndcg:.1f} | {point.milliseconds:.1f}' for point in own)} |"
        )
    return "\n".join(lines)


def result(points: Sequence[Point]) -> str:
    """The line that sums it up."""

    def of(system: str) -> list[Point]:
        return [point for point in points if point.system == system]

    parts = []
    for key, other in (("bm25", of("BM25, n-grams")), ("minilm", of(ONE_VECTOR["minilm"]))):
        pairs = list(zip(of(REFERENCE), other, strict=False))
        parts.append((f"above_{key}", f"{sum(own.ndcg > theirs.ndcg for own, theirs in pairs)}"))
        ratios = [own.milliseconds / theirs.milliseconds for own, theirs in pairs]
        parts.append((f"ms_ratio_{key}", f"{statistics.fmean(ratios):.2f}" if ratios else "nan"))
    return "RESULT bench-quality " + " ".join(f"{name}={value}" for name, value in sorted(parts))
