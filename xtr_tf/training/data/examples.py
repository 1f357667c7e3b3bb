"""A document as the data gives it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.lines import LineFile


class Document(NamedTuple):
    """A passage.

    Attributes:
        id: Name within its data set; empty if the data gives none.
        title: Title, possibly empty.
        text: The passage itself.
        teacher_score: A teacher's score for the query it was listed with; NaN if none.
    """

    id: str
    title: str
    text: str
    teacher_score: float = math.nan

    @property
    def content(self) -> str:
        """What is encoded: the title before the text, if there is one."""
        return f"{self.title} {self.text}" if self.title else self.text

    @classmethod
    def from_json(cls, value: Any) -> Document:
        """Reads a plain text, or an object with `text` and optional `id` or `_id`, `title`, `score`.

        Raises:
            ValueError: It is neither; the message says why.
        """
        if isinstance(value, str):
            value = {"text": value}
        if not isinstance(value, dict):
            raise ValueError("a document is neither a text nor an object")
        identity = first_value(value, "id", "_id", "docid")
        title, text = value.get("title") or "", value.get("text")
        if not isinstance(text, str) or not isinstance(title, str):
            raise ValueError("a document has no `text`, or a `title` that is not text")
        if not text.strip() and not title.strip():
            raise ValueError("a document is empty")
        require_utf8("a document", identity, title, text)
        score = value.get("score")
        if score is not None and not isinstance(score, int | float):
            raise ValueError("a document's `score` is not a number")
        return cls(identity, title, text, math.nan if score is None else float(score))


def first_value(record: dict[str, Any], *names: str) -> str:
    """Returns the first field that is there and not null, as text; empty if there is none."""
    return str(next((record[name] for name in names if record.get(name) is not None), ""))


def require_utf8(what: str, *texts: str) -> None:
    """Raises `ValueError` if a text cannot be encoded: JSON can spell halves of characters."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not UTF-8") from error


class TrainingExample(NamedTuple):
    """One query to learn from.

    Attributes:
        id: Name within its data set; empty if the data gives none.
        query: Text of the query.
        positives: Documents that answer it, at least one.
        negatives: Documents that do not although they look so.
        language: Language code, such as `en`.
    """

    id: str
    query: str
    positives: tuple[Document, ...]
    negatives: tuple[Document, ...] = ()
    language: str = "und"

    @classmethod
    def from_json(cls, record: Any, language: str) -> TrainingExample:
        """Reads a pair or triple from a JSON object.

        The full form has `query`, `positives` and `negatives` (lists of documents, see
        `Document.from_json`), `id` and `language`. Short forms are `positive` and `negative`
        for one document each, and `title` and `text` at the top for a single positive.

        Args:
            record: The decoded object.
            language: Used where the record names none.

        Raises:
            ValueError: The record does not have this form; the message says why.
        """
        if not isinstance(record, dict):
            raise ValueError("the record is not an object")
        query = record.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("the record has no `query`")
        positives = _documents(record, "positives", "positive")
        if not positives and "text" in record:
            positives = (Document.from_json({"title": record.get("title"), "text": record["text"]}),)
        if not positives:
            raise ValueError("the record has neither `positives` nor `positive` nor `text`")
        example = cls(
            id=first_value(record, "id", "_id"),
            query=query,
            positives=positives,
            negatives=_documents(record, "negatives", "negative"),
            language=str(record.get("language") or language),
        )
        require_utf8("the record", example.id, query, example.language)
        return example


def _documents(record: dict[str, Any], plural: str, singular: str) -> tuple[Document, ...]:
    values = record.get(plural)
    if values is None:
        values = [record[singular]] if record.get(singular) is not None else []
    if not isinstance(values, list):
        raise ValueError(f"`{plural}` is not a list")
    return tuple(Document.from_json(value) for value in values)


class ExampleSource(Protocol):
    """Examples by number.

    Attributes:
        name: Tells sources apart; document ids are compared within one name only.
        languages: Language of each example, `[examples]` of strings.
        max_positives: The most positives an example has.
    """

    name: str
    languages: np.ndarray
    max_positives: int

    def __len__(self) -> int:
        """Number of examples."""
        ...

    def __getitem__(self, index: int) -> TrainingExample:
        """The example at `index`, from 0."""
        ...


ParseLine = Callable[[bytes, str], TrainingExample]


class LineSource:
    """Examples that stand one a line in some files, parsed when they are asked for.

    Every line is parsed once at the start, so that bad ones are found before training.

    Args:
        name: Name of the source.
        paths: The files.
        parse: Turns a line and a default language into an example, or raises `ValueError`.
        language: Language of examples that name none.
        bad_records: Told of lines that cannot be parsed.
    """

    def __init__(
        self, name: str, paths: list[Path], parse: ParseLine, language: str, bad_records: BadRecords
    ) -> None:
        self.name = name
        self.max_positives = 1
        self._parse = parse
        self._language = language
        self._files = [LineFile(path) for path in paths]
        languages: list[str] = []
        places: list[tuple[int, int]] = []
        for file_number, file in enumerate(self._files):
            for line_number in range(len(file)):
                line = file[line_number]
                if not line:
                    continue
                try:
                    example = parse(line, language)
                except ValueError as error:
                    bad_records.skip(file.path, line_number + 1, str(error))
                    continue
                languages.append(example.language)
                places.append((file_number, line_number))
                self.max_positives = max(self.max_positives, len(example.positives))
        self.languages = np.array(languages, dtype=str)
        self._places = np.array(places, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> TrainingExample:
        file_number, line_number = self._places[index]
        return self._parse(self._files[file_number][line_number], self._language)


def parse_jsonl(line: bytes, language: str) -> TrainingExample:
    """Parses a JSON object, see `TrainingExample.from_json`."""
    try:
        record = json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError("the line is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON ({error})") from error
    return TrainingExample.from_json(record, language)


def parse_tsv(line: bytes, language: str) -> TrainingExample:
    """Parses `query, positive[, negative ...]`, separated by tabs, such as MS MARCO's triples."""
    try:
        fields = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise ValueError("the line is not UTF-8") from error
    if len(fields) < 2:
        raise ValueError("the line has fewer than two fields separated by tabs")
    if not all(field.strip() for field in fields):
        raise ValueError("the line has an empty field")
    query, positive, *negatives = fields
    return TrainingExample(
        id="",
        query=query,
        positives=(Document("", "", positive),),
        negatives=tuple(Document("", "", negative) for negative in negatives),
        language=language,
    )
