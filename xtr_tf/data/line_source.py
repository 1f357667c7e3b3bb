"""Examples from files with one of them a line: JSONL pairs and triples, and TSV triples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from xtr_tf.data.bad_records import BadRecords
from xtr_tf.data.document import Document
from xtr_tf.data.lines import LineFile
from xtr_tf.data.training_example import TrainingExample

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
