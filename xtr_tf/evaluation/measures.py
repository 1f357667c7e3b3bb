"""Metrics per query, all by `ir_measures` (which asks trec_eval): none is computed here.

A query that found nothing scores 0, as in trec_eval with `-c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.evaluation.datasets.dataset import Judgements
from xtr_tf.evaluation.run import Run

#: Names as reports print them, and as `ir_measures` spells them. Accuracy at k of open-domain QA is
#: Success@k under judgements made from the answers.
METRICS: Mapping[str, str] = {
    "nDCG@10": "nDCG@10",
    "MRR@10": "RR@10",
    "Recall@100": "R@100",
    "Recall@1000": "R@1000",
    "Success@5": "Success@5",
    "MAP": "AP",
    "Top-20": "Success@20",
    "Top-100": "Success@100",
    "Judged@10": "Judged@10",
}
JUDGED_METRICS = ("nDCG@10", "MRR@10", "Recall@100", "Recall@1000", "Success@5", "MAP", "Judged@10")
ANSWER_METRICS = ("Top-20", "Top-100")

# Queries given to ir_measures at once: it holds every result as Python objects.
_QUERIES_AT_ONCE = 512


def cutoff(name: str) -> int:
    """How many documents a metric looks at; 0 for one that takes whatever there is."""
    return int(METRICS[name].partition("@")[2] or 0)


def metrics_for(by_answers: bool, depth: int) -> tuple[str, ...]:
    """The metrics that runs of `depth` documents can be measured with.

    Args:
        by_answers: Whether the dataset is judged by answer strings.
        depth: Documents of each query; a metric that looks further is left out.
    """
    names = ANSWER_METRICS if by_answers else JUDGED_METRICS
    return tuple(name for name in names if depth >= cutoff(name))


def measure(
    run: Run, judgements: Judgements, queries: Sequence[str], metrics: Sequence[str]
) -> dict[str, np.ndarray]:
    """Measures a run.

    Args:
        run: The run.
        judgements: Grades by document by query; every query must have an entry.
        queries: Query ids, which decide the order of the values.
        metrics: Names from `METRICS`.

    Returns:
        `[queries]` float64 in [0, 1], by metric.
    """
    for name in metrics:
        if name not in METRICS:
            raise InputError(f"A metric is one of {', '.join(METRICS)}. Received: {name!r}.")
    import ir_measures

    parsed = {_parse(METRICS[name]): name for name in metrics}
    values = {name: np.zeros(len(queries)) for name in metrics}
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = queries[start : start + _QUERIES_AT_ONCE]
        place = {query: start + offset for offset, query in enumerate(part)}
        results = run.as_mapping(part)
        if not results:
            continue
        grades = {query: dict(judgements[query]) for query in part}
        for result in ir_measures.iter_calc(list(parsed), grades, results):
            values[parsed[result.measure]][place[result.query_id]] = result.value
    return values


@cache
def _parse(name: str) -> Any:
    import ir_measures

    return ir_measures.parse_measure(name)
