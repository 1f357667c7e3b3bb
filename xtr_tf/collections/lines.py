"""Lines of text files: one after the other, any of them by number, or cut into columns.

Every reader of text goes through `read_lines` or `LineFile`. Knows nothing of documents or queries.
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
    """Numbers, from 1, and lines without their end; blank lines and a byte order mark are left out."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip():
                yield number, content.rstrip(b"\r\n")


class LineFile:
    """The lines of a file by number, without keeping a plain file in memory.

    A compressed file is decompressed into memory.

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
        """The line at `index`, from 0, without its end."""
        return self._content[self._bounds[index] : self._bounds[index + 1]].rstrip(b"\r\n")


def decode(line: bytes) -> str:
    """The text of a line; a `ValueError` says that it is none."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("invalid UTF-8") from error


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; a `ValueError` says why it is none."""
    text = decode(line)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("invalid JSON") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_objects(path: Path, on_bad: OnBadRecord = refuse) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbers of lines and their JSON objects.

    Args:
        path: Of the file, plain or compressed.
        on_bad: Told of lines that are not JSON objects.

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
    """Numbers of lines and their columns between tabs, however many there are.

    Args:
        path: Of the file, plain or compressed.
        on_bad: Told of lines that are not UTF-8.

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
    """Numbers of lines and their `count` columns between tabs, of which the first must not be empty.

    Args:
        path: Of the file, plain or compressed.
        count: Columns that a line must have.
        on_bad: Told of other lines.

    Yields:
        The number of a line, from 1, and its columns.
    """
    for number, columns in split_lines(path, on_bad):
        if len(columns) == count and columns[0]:
            yield number, columns
        else:
            on_bad(path, number, f"{count} columns between tabs are needed, not {len(columns)}")


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
            refuse(path, reader.line_num + 1, str(error))
