"""Training examples: a query with documents that answer it and documents that do not.

Defines an example, parses lines and records into examples, and provides them by number. Knows nothing of
sampling, tokens or batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.document import (
    LANGUAGE_FIELDS,
    UNKNOWN_LANGUAGE,
    Document,
    id_field,
    text_field,
)
from xtr_tf.collections.lines import decode, parse_object


class TrainingExample(NamedTuple):
    """One query to learn from.

    Attributes:
        id: Name within its data set. Empty if the data have none.
        query: Text of the query.
        positives: Documents that answer it, at least one.
        negatives: Documents that look like answers but are not.
        language: Language code, such as `en`.
        teacher_scores: A teacher's scores of the positives, then of the negatives, NaN where a score is
            missing. Empty if there are no scores at all.
    """

    id: str
    query: str
    positives: tuple[Document, ...]
    negatives: tuple[Document, ...] = ()
    language: str = UNKNOWN_LANGUAGE
    teacher_scores: tuple[float, ...] = ()

    def teacher_score(self, index: int) -> float:
        """Returns the score of a document, or NaN.

        Args:
            index: Number of the document, first through the positives and then through the negatives.

        Returns:
            The teacher's score, or NaN if there is none.
        """
        return self.teacher_scores[index] if self.teacher_scores else math.nan

    @classmethod
    def from_json(cls, record: Any, language: str) -> TrainingExample:
        """Reads a pair or triple from a JSON object.

        The full form has `query`, `positives`, `negatives`, `id` and `language`. Positives and negatives are
        lists of documents. A document is a text, or an object with the fields of `Document.from_fields` and a
        teacher's `score`, of which only a text is required. The short forms are `positive` and `negative` for
        one document each, and `title` and `text` at the top level for a single positive.

        Args:
            record: The decoded object.
            language: Language of records that do not name one.

        Returns:
            The example.

        Raises:
            ValueError: The record does not have this form. The message says why.
        """
        if not isinstance(record, dict):
            raise ValueError("the record is not an object")
        query = text_field(record, ("query",))
        if not query.strip():
            raise ValueError("the record has no `query`")
        positives = _listed(record, "positives", "positive")
        if not positives and "text" in record:
            positives = [{"title": record.get("title"), "text": record["text"]}]
        if not positives:
            raise ValueError("the record has neither `positives` nor `positive` nor `text`")
        negatives = _listed(record, "negatives", "negative")
        scores = tuple(_score(value) for value in (*positives, *negatives))
        return cls(
            id=id_field(record),
            query=query,
            positives=tuple(map(_document, positives)),
            negatives=tuple(map(_document, negatives)),
            language=text_field(record, LANGUAGE_FIELDS) or language,
            teacher_scores=() if all(map(math.isnan, scores)) else scores,
        )


def _listed(record: dict[str, Any], plural: str, singular: str) -> list[Any]:
    values = record.get(plural)
    if values is None:
        values = [record[singular]] if record.get(singular) is not None else []
    if not isinstance(values, list):
        raise ValueError(f"`{plural}` is not a list")
    return values


def _document(value: Any) -> Document:
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        raise ValueError("a document is neither a text nor an object")
    try:
        return Document.from_fields(value)
    except ValueError as error:
        raise ValueError(f"a document cannot be used: {error}") from error


def _score(value: Any) -> float:
    score = value.get("score") if isinstance(value, dict) else None
    if score is not None and not isinstance(score, int | float):
        raise ValueError("a document's `score` is not a number")
    return math.nan if score is None else float(score)


class ExampleSource(Protocol):
    """Examples by number.

    Attributes:
        name: Name of the source. Document ids are compared only within one name.
        languages: Language of each example, `[examples]` strings.
        max_positives: Largest number of positives of an example.
    """

    name: str
    languages: np.ndarray
    max_positives: int

    def __len__(self) -> int:
        """Returns the number of examples."""
        ...

    def __getitem__(self, index: int) -> TrainingExample:
        """Returns the example at `index`, from 0."""
        ...


class RecordFile(Protocol):
    """The records of a file by number: a `LineFile` or a `TFRecordFile`."""

    path: Path

    def __len__(self) -> int:
        """Returns the number of records."""
        ...

    def __getitem__(self, index: int) -> bytes:
        """Returns the record at `index`, from 0."""
        ...


#: Turns a record and a default language into an example, or raises `ValueError`.
ParseRecord = Callable[[bytes, str], TrainingExample]


class FileSource:
    """Examples from the records of some files, parsed on access.

    Every record is parsed once at the start, so that bad ones are found before training. Empty records, such
    as blank lines, are ignored.

    Args:
        name: Name of the source.
        files: The files.
        parse: Function that parses a record.
        language: Language of examples that do not name one.
        bad_records: Collects records that cannot be parsed.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[RecordFile],
        parse: ParseRecord,
        language: str,
        bad_records: BadRecords,
    ) -> None:
        self.name = name
        self.max_positives = 1
        self._files = files
        self._parse = parse
        self._language = language
        languages: list[str] = []
        locations: list[tuple[int, int]] = []
        for file_number, file in enumerate(files):
            for record_number in range(len(file)):
                record = file[record_number]
                if not record:
                    continue
                try:
                    example = parse(record, language)
                except ValueError as error:
                    bad_records.skip(file.path, record_number + 1, str(error))
                    continue
                languages.append(example.language)
                locations.append((file_number, record_number))
                self.max_positives = max(self.max_positives, len(example.positives))
        self.languages = np.array(languages, dtype=str)
        self._locations = np.array(locations, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._locations)

    def __getitem__(self, index: int) -> TrainingExample:
        file_number, record_number = self._locations[index]
        return self._parse(self._files[file_number][record_number], self._language)


def parse_jsonl(line: bytes, language: str) -> TrainingExample:
    """Parses a JSON object. See `TrainingExample.from_json`.

    Args:
        line: One line of a file.
        language: Language of records that do not name one.

    Returns:
        The example.

    Raises:
        ValueError: The line is not an example. The message says why.
    """
    return TrainingExample.from_json(parse_object(line), language)


def parse_tsv(line: bytes, language: str) -> TrainingExample:
    r"""Parses `query, positive[, negative ...]`, separated by tabs, such as MS MARCO's triples.

    Args:
        line: One line of a file.
        language: Language of the example.

    Returns:
        The example.

    Raises:
        ValueError: The line has fewer than two fields, or an empty one.

    Example:
        >>> parse_tsv(b"deepest lake\tBaikal is 1,642 m deep.", "en").query
        'deepest lake'
    """
    fields = decode(line).split("\t")
    if len(fields) < 2:
        raise ValueError("the line has fewer than two fields separated by tabs")
    if not all(field.strip() for field in fields):
        raise ValueError("the line has an empty field")
    query, positive, *negatives = fields
    return TrainingExample(
        id="",
        query=query,
        positives=(Document("", positive),),
        negatives=tuple(Document("", negative) for negative in negatives),
        language=language,
    )
