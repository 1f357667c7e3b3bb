"""Metrics per query, all computed by `ir_measures`, which calls trec_eval.

A query that found nothing scores 0, as in trec_eval with `-c`. The second half turns answer strings into
judgements, for open-domain questions. Knows nothing about means or intervals.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from xtr_tf.collections.dataset import Dataset, Judgements
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.run import Run

#: Names in reports, and names in `ir_measures`. Accuracy at k of open-domain QA is Success@k under
#: judgements made from the answers.
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

# Queries given to ir_measures at once, because it stores every result as a Python object.
_QUERIES_AT_ONCE = 512


def cutoff(name: str) -> int:
    """Returns how many documents a metric looks at; 0 for all."""
    return int(METRICS[name].partition("@")[2] or 0)


def metrics_for(by_answers: bool, depth: int) -> tuple[str, ...]:
    """Returns the metrics that can be computed for runs of `depth` documents.

    Args:
        by_answers: Whether the dataset is judged by answer strings.
        depth: Documents per query. Metrics that look further are left out.

    Returns:
        Names from `METRICS`.

    Example:
        >>> metrics_for(by_answers=True, depth=50)
        ('Top-20',)
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

    Raises:
        InputError: A metric is not in `METRICS`.
    """
    for name in metrics:
        if name not in METRICS:
            raise InputError(f"A metric is one of {', '.join(METRICS)}. Received: {name!r}.")
    import ir_measures

    parsed = {_parse(METRICS[name]): name for name in metrics}
    values = {name: np.zeros(len(queries)) for name in metrics}
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = queries[start : start + _QUERIES_AT_ONCE]
        row_of = {query: start + offset for offset, query in enumerate(part)}
        results = run.as_mapping(part)
        if not results:
            continue
        grades = {query: dict(judgements[query]) for query in part}
        for result in ir_measures.iter_calc(list(parsed), grades, results):
            values[parsed[result.measure]][row_of[result.query_id]] = result.value
    return values


@cache
def _parse(name: str) -> Any:
    import ir_measures

    return ir_measures.parse_measure(name)


class _WordBoundaries(dict[int, str]):
    """For `str.translate`: keeps letters, digits and marks; spaces separate words; the rest are words."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)[0]
        self[code] = character if kind in "LNM" else " " if kind in "ZC" else f" {character} "
        return self[code]


_BOUNDARIES = _WordBoundaries()


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Returns whether the words of one of `answers` occur in `text`, one after the other.

    Args:
        text: The text to search.
        answers: The answers. Case, accents and punctuation do not matter.

    Returns:
        Whether the text contains one of them.

    Example:
        >>> contains_answer("He was born in New York City.", ["new york"])
        True
        >>> contains_answer("Yorkshire", ["York"])
        False
    """
    words = _normalise(text)
    return any(answer in words for answer in map(_normalise, answers) if answer.strip())


def judge_by_answers(dataset: Dataset, runs: Sequence[Run], depth: int = 100) -> dict[str, dict[str, int]]:
    """Judges every document that a run found among its first `depth`: 1 if it contains an answer, else 0.

    Args:
        dataset: A dataset whose queries have answers.
        runs: The runs to judge. Their documents must be in the corpus of the dataset.
        depth: Documents to judge per query.

    Returns:
        Grades by document by query, for every query of the dataset.
    """
    retrieved = {
        query.id: {document for run in runs for document in run.documents(query.id)[:depth]}
        for query in dataset.queries
    }
    texts = _texts(dataset.corpus, {document for documents in retrieved.values() for document in documents})
    return {
        query.id: {
            document: int(contains_answer(texts.get(document, ""), query.answers))
            for document in sorted(retrieved[query.id])
        }
        for query in dataset.queries
    }


def _texts(corpus: Iterable[Document], wanted: set[str]) -> dict[str, str]:
    return {document.id: document.text for document in corpus if document.id in wanted}


def _normalise(text: str) -> str:
    words = unicodedata.normalize("NFD", text).lower().translate(_BOUNDARIES).split()
    return f" {' '.join(words)} "
