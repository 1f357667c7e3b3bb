"""Which documents answer which query, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xtr_tf.collections.bad_records import OnBadRecord, refuse
from xtr_tf.collections.lines import decode, read_lines

#: Grades by query id and document id. A document with a grade of 0 or less does not answer the query.
Judgements = Mapping[str, Mapping[str, int]]


def read_judgements(path: Path, on_bad: OnBadRecord = refuse) -> dict[str, dict[str, int]]:
    """Reads `query document grade` (BEIR) or `query 0 document grade` (TREC, MS MARCO, MIRACL).

    Columns are separated by tabs or spaces. Grades are integers, which may be written as `1.0`. A first line
    whose grade is not a number is a header.

    Args:
        path: The file.
        on_bad: Called for lines that are not judgements.

    Returns:
        Grades by query id and document id, in the order of the file.
    """
    judgements: dict[str, dict[str, int]] = {}
    is_first = True
    for number, line in read_lines(path):
        try:
            columns = _columns(decode(line))
            if not (is_first and _is_header(columns)):
                judgements.setdefault(columns[0], {})[columns[-2]] = _grade(columns[-1])
        except ValueError as error:
            on_bad(path, number, str(error))
        is_first = False
    return judgements


def _columns(line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) not in (3, 4):  # tabs are tried first, because ids may contain spaces
        columns = line.split()
    if len(columns) not in (3, 4):
        raise ValueError(f"a judgement has 3 or 4 columns, not {len(columns)}")
    return columns


def _is_header(columns: list[str]) -> bool:
    try:
        float(columns[-1])
    except ValueError:
        return True
    return False


def _grade(text: str) -> int:
    try:
        return int(text.removesuffix(".0"))
    except ValueError as error:
        raise ValueError("a judgement ends with an integer grade") from error
