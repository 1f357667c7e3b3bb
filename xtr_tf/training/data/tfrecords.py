"""Examples from TFRecord files, and the layout of a record.

A record is a `tf.train.Example` with the bytes features `id`, `query` and `language`. Positives have the
bytes features `positive_ids`, `positive_titles` and `positive_texts` and the float feature `positive_scores`
(NaN for a missing teacher score), each with one value per document. Negatives have the same with `negative_`.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import tensorflow as tf

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.compression import file_content
from xtr_tf.training.data.examples import TrainingExample

# A record is its length (8 bytes), a checksum (4), the data, and a checksum (4).
_HEADER, _FOOTER = 12, 4


class TFRecordFile:
    """The records of a TFRecord file by number.

    Records of a plain file are read from disk on access. A compressed file is kept in memory.

    Args:
        path: The file.
        bad_records: Collects a record that is cut off by the end of the file.
    """

    def __init__(self, path: Path, bad_records: BadRecords) -> None:
        self.path = path
        self._content = memoryview(file_content(path))
        self._bounds = np.array(_record_bounds(self._content, path, bad_records), np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, index: int) -> bytes:
        """Returns the record at `index`, from 0."""
        start, end = self._bounds[index]
        return bytes(self._content[start:end])


def _record_bounds(content: memoryview, path: Path, bad_records: BadRecords) -> list[tuple[int, int]]:
    """Returns where each record's data starts and ends. Ignores the rest of a file after a broken record."""
    bounds: list[tuple[int, int]] = []
    position = 0
    while position < len(content):
        header = content[position : position + 8]
        length = struct.unpack("<Q", header)[0] if len(header) == 8 else len(content)
        end = position + _HEADER + length
        if end + _FOOTER > len(content):
            bad_records.skip(path, len(bounds) + 1, "the file ends within this record")
            break
        bounds.append((position + _HEADER, end))
        position = end + _FOOTER
    return bounds


def serialize_example(example: TrainingExample) -> bytes:
    """Serialises an example as a record."""

    def texts(*values: str) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))

    features = {
        "id": texts(example.id),
        "query": texts(example.query),
        "language": texts(example.language),
    }
    first = 0
    for kind, documents in (("positive", example.positives), ("negative", example.negatives)):
        features[f"{kind}_ids"] = texts(*(document.id for document in documents))
        features[f"{kind}_titles"] = texts(*(document.title for document in documents))
        features[f"{kind}_texts"] = texts(*(document.text for document in documents))
        scores = [example.teacher_score(first + index) for index in range(len(documents))]
        features[f"{kind}_scores"] = tf.train.Feature(float_list=tf.train.FloatList(value=scores))
        first += len(documents)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )


def parse_example(record: bytes, language: str) -> TrainingExample:
    """Parses a record of `serialize_example`.

    Args:
        record: A serialised `tf.train.Example`.
        language: Language of records that do not name one.

    Returns:
        The example.

    Raises:
        ValueError: The record is not a training example. The message says why.
    """
    proto = tf.train.Example()
    try:
        proto.ParseFromString(record)
    except Exception as error:
        raise ValueError("the record is not a tf.train.Example") from error
    features = proto.features.feature

    def texts(name: str) -> list[str]:
        try:
            return [value.decode("utf-8") for value in features[name].bytes_list.value]
        except UnicodeDecodeError as error:
            raise ValueError(f"`{name}` is not UTF-8") from error

    def documents(kind: str) -> list[dict[str, object]]:
        bodies = texts(f"{kind}_texts")
        ids, titles = (texts(f"{kind}_{part}") or [""] * len(bodies) for part in ("ids", "titles"))
        scores = list(features[f"{kind}_scores"].float_list.value) or [float("nan")] * len(bodies)
        if not len(ids) == len(titles) == len(scores) == len(bodies):
            raise ValueError(f"the features of `{kind}_texts` have different lengths")
        return [
            {"id": id_, "title": title, "text": text, "score": score}
            for id_, title, text, score in zip(ids, titles, bodies, scores, strict=True)
        ]

    return TrainingExample.from_json(
        {
            "id": "".join(texts("id")),
            "query": "".join(texts("query")),
            "language": "".join(texts("language")),
            "positives": documents("positive"),
            "negatives": documents("negative"),
        },
        language,
    )
