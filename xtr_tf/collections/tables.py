"""Lines of the small files of a test collection: every mistake is told with its file and line.

Corpora, which are large and may hold bad records, are read by `xtr_tf.corpus` instead.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xtr_tf.collections.lines import DAMAGE, damaged, open_bytes, read_lines
from xtr_tf.errors import InputError


def find_file(folder: Path, name: str) -> Path | None:
    """`folder/name`, plain or compressed, or None."""
    candidates = (folder / f"{name}{suffix}" for suffix in ("", ".gz", ".xz", ".bz2"))
    return next((path for path in candidates if path.is_file()), None)


def read_text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbers and contents of the lines that are not blank."""
    for number, line in read_lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise bad_line(path, number, "is not UTF-8") from error
        if text.strip():
            yield number, text


def read_columns(path: Path, counts: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    """Numbers and tab-separated columns of lines; a line must have one of `counts` columns."""
    for number, line in read_text_lines(path):
        columns = line.split("\t")
        if len(columns) not in counts:
            wanted = " or ".join(str(count) for count in counts)
            raise bad_line(path, number, f"must have {wanted} columns between tabs, not {len(columns)}")
        yield number, columns


def read_objects(path: Path, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """JSON objects, one a line, each with at least `fields`."""
    for number, line in read_text_lines(path):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise bad_line(path, number, "is not JSON") from error
        if not isinstance(record, dict) or any(field not in record for field in fields):
            raise bad_line(path, number, f"must be a JSON object with {', '.join(fields)}")
        yield record


def read_quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers and columns of a tab-separated file whose fields may be quoted, as DPR's are."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
        reader = csv.reader(text, delimiter="\t")
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise bad_line(path, reader.line_num + 1, f"cannot be read ({error})") from error
        except DAMAGE as error:
            raise damaged(path, error) from error


def bad_line(path: Path, number: int, problem: str) -> InputError:
    """The error for one line of a file."""
    return InputError(f"A line of a dataset {problem}; mend the file. Received: {path!s}, line {number}.")


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
