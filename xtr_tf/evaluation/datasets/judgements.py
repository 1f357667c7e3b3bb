"""Relevance judgements in BEIR's three columns or TREC's four."""

from __future__ import annotations

from pathlib import Path

from xtr_tf.evaluation.datasets.records import bad_line, read_columns


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Reads `query document grade` (BEIR, with a header) or `query 0 document grade` (TREC).

    Args:
        path: The file; columns are separated by tabs.

    Returns:
        Document id to grade, by query id, in the order of the file.
    """
    judgements: dict[str, dict[str, int]] = {}
    first = True
    for number, columns in read_columns(path, (3, 4)):
        query, document, grade = columns[0], columns[-2], columns[-1]
        try:
            judgements.setdefault(query, {})[document] = int(grade)
        except ValueError as error:
            if not first:  # a header is the only line whose grade is no number
                raise bad_line(path, number, "must end with an integer grade") from error
        first = False
    return judgements
