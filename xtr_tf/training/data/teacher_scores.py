"""A teacher's scores in a separate file, for training sets that do not contain them.

Each line has a `query id`, a `document id` and a `score`, separated by tabs: BEIR's judgements with a number
instead of the grade. Knows nothing about how scores are used in training.
"""

from __future__ import annotations

import math
from pathlib import Path

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.lines import read_columns
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import ExampleSource, TrainingExample

Scores = dict[str, dict[str, float]]


class ScoredSource:
    """Examples of another source, with a teacher's scores from a file.

    Scores that the file does not have stay as in the source.

    Args:
        source: Examples whose queries and documents have ids.
        path: File of the scores.
        bad_records: Collects lines without a score.

    Raises:
        InputError: The file does not exist, or has no score for any example.
    """

    def __init__(self, source: ExampleSource, path: str, bad_records: BadRecords) -> None:
        self._source = source
        self.name, self.languages, self.max_positives = source.name, source.languages, source.max_positives
        self._scores = read_scores(Path(path), bad_records)
        if not any(self._knows(source[index]) for index in range(len(source))):
            raise InputError(
                f"A teacher's scores must be of queries and documents of their training set, {self.name!r}; "
                f"compare the ids. Received: {path!r}."
            )

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> TrainingExample:
        example = self._source[index]
        given = self._scores.get(example.id, {})
        scores = tuple(
            given.get(document.id, example.teacher_score(place))
            for place, document in enumerate((*example.positives, *example.negatives))
        )
        return example._replace(teacher_scores=() if all(map(math.isnan, scores)) else scores)

    def _knows(self, example: TrainingExample) -> bool:
        given = self._scores.get(example.id, {})
        return any(document.id in given for document in (*example.positives, *example.negatives))


def read_scores(path: Path, bad_records: BadRecords) -> Scores:
    """Reads a file of scores. A first line without a number is a header.

    Args:
        path: File with query id, document id and score, separated by tabs.
        bad_records: Collects lines that cannot be read.

    Returns:
        Scores by query id, then by document id.

    Raises:
        InputError: The file does not exist.
    """
    if not path.is_file():
        raise InputError(
            f"A file of a teacher's scores does not exist; check `teacher_scores`. Received: {str(path)!r}."
        )
    scores: Scores = {}
    for number, (query, document, text) in read_columns(path, 3, bad_records.skip):
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if math.isfinite(score):
            scores.setdefault(query, {})[document] = score
        elif number > 1:
            bad_records.skip(path, number, "the score is not a number")
    return scores
