"""Whether a passage contains an answer, as DPR decides it: the same words in a row, whatever their case.

Citation: [Karpukhin et al., 2020](https://arxiv.org/abs/2004.04906).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from xtr_tf.corpus.document import Document
from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.run import Run


class _WordBoundaries(dict[int, str]):
    """For `str.translate`: letters, digits and marks stay, blanks part words, all else is a word."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)[0]
        self[code] = character if kind in "LNM" else " " if kind in "ZC" else f" {character} "
        return self[code]


_BOUNDARIES = _WordBoundaries()


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether the words of any of `answers` stand in `text` one after the other.

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
        dataset: One whose queries have answers.
        runs: What is to be judged; its documents must be in the dataset's corpus.
        depth: Documents of each query that are looked at.

    Returns:
        Grades by document by query, for every query of the dataset.
    """
    found = {
        query.id: {document for run in runs for document in run.documents(query.id)[:depth]}
        for query in dataset.queries
    }
    texts = _texts(dataset.corpus, {document for documents in found.values() for document in documents})
    return {
        query.id: {
            document: int(contains_answer(texts.get(document, ""), query.answers))
            for document in sorted(found[query.id])
        }
        for query in dataset.queries
    }


def _texts(corpus: Iterable[Document], wanted: set[str]) -> dict[str, str]:
    return {document.id: document.text for document in corpus if document.id in wanted}


def _normalise(text: str) -> str:
    words = unicodedata.normalize("NFD", text).lower().translate(_BOUNDARIES).split()
    return f" {' '.join(words)} "
