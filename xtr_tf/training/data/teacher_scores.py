"""A teacher's scores in a file of their own, for training sets that do not carry them.

One `query id`, `document id` and `score` per line, between tabs: BEIR's judgements with a number in place of
the grade. Knows nothing of how scores are learned from.
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
    """Examples of another source, with a teacher's scores where the file has them.

    Args:
        source: The examples; their queries and documents must have ids.
        path: The file of scores.
        bad_records: Told of lines that hold none.

    Raises:
        InputError: There is no such file, or it says nothing of any example.
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
    """Scores by document id, by query id; a first line without a number is a header.

    Args:
        path: Query id, document id and score between tabs.
        bad_records: Told of lines that cannot be read.

    Returns:
        Scores by document id, by query id.

    Raises:
        InputError: There is no such file.
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
