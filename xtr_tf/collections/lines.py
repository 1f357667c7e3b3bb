"""Lines of text files: in order, by number, or split into columns.

All readers of text use `read_lines` or `LineFile`. Knows nothing about documents or queries.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.bad_records import OnBadRecord, refuse
from xtr_tf.collections.compression import file_content, open_bytes


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields line numbers, from 1, and lines without newlines. Skips blank lines and a byte order mark."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip():
                yield number, content.rstrip(b"\r\n")


class LineFile:
    """Random access to the lines of a file.

    A plain file is memory-mapped. A compressed file is decompressed into memory.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = file_content(path)
        starts, start = [], 0
        while start < len(self._content):
            starts.append(start)
            end = self._content.find(b"\n", start)
            start = len(self._content) if end < 0 else end + 1
        self._bounds = np.array([*starts, len(self._content)], np.int64)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> bytes:
        """Returns the line at `index`, from 0, without its newline."""
        return self._content[self._bounds[index] : self._bounds[index + 1]].rstrip(b"\r\n")


def decode(line: bytes) -> str:
    """Decodes a line; raises `ValueError` if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("invalid UTF-8") from error


def parse_object(line: bytes) -> dict[str, Any]:
    """Parses a line as a JSON object; raises `ValueError` that says why it is not one."""
    text = decode(line)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("invalid JSON") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_objects(path: Path, on_bad: OnBadRecord = refuse) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads one JSON object per line.

    Args:
        path: The file, plain or compressed.
        on_bad: Called for lines that are not JSON objects.

    Yields:
        The number of a line, from 1, and its object.
    """
    for number, line in read_lines(path):
        try:
            value = parse_object(line)
        except ValueError as error:
            on_bad(path, number, str(error))
        else:
            yield number, value


def split_lines(path: Path, on_bad: OnBadRecord = refuse) -> Iterator[tuple[int, list[str]]]:
    """Splits lines into tab-separated columns of any number.

    Args:
        path: The file, plain or compressed.
        on_bad: Called for lines that are not UTF-8.

    Yields:
        The number of a line, from 1, and its columns.
    """
    for number, line in read_lines(path):
        try:
            columns = decode(line).split("\t")
        except ValueError as error:
            on_bad(path, number, str(error))
        else:
            yield number, columns


def read_columns(path: Path, count: int, on_bad: OnBadRecord = refuse) -> Iterator[tuple[int, list[str]]]:
    """Splits lines into a fixed number of tab-separated columns, the first of which must not be empty.

    Args:
        path: The file, plain or compressed.
        count: Columns that a line must have.
        on_bad: Called for other lines.

    Yields:
        The number of a line, from 1, and its columns.
    """
    for number, columns in split_lines(path, on_bad):
        if len(columns) == count and columns[0]:
            yield number, columns
        else:
            on_bad(path, number, f"{count} tab-separated columns are needed, not {len(columns)}")


def read_quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and columns of each line of a tab-separated file with quoted fields, as in DPR."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
        reader = csv.reader(text, delimiter="\t")
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            refuse(path, reader.line_num + 1, str(error))
