"""The file formats of a corpus: each reader gives a file's records as they stand, good or bad.

A record is a mapping of field names to values, or a `BadRecord`. What makes a document of one
is `CorpusReader`'s business. A file that cannot be read on raises `InputError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xtr_tf.collections.compression import import_pyarrow, open_bytes
from xtr_tf.errors import InputError


class BadRecord(NamedTuple):
    """A record that is none, and why."""

    reason: str


Record = Mapping[str, Any] | BadRecord

ID_FIELDS = ("_id", "id", "docid")
TEXT_FIELDS = ("text", "contents")
LANGUAGE_FIELDS = ("language", "lang")
_FIELDS = frozenset({*ID_FIELDS, *TEXT_FIELDS, *LANGUAGE_FIELDS, "title"})
_PARQUET_BATCH = 1024


def read_jsonl(path: Path) -> Iterator[Record]:
    """One JSON object a line; blank lines are passed over."""
    with open_bytes(path) as file:
        for number, line in enumerate(file):
            if line.isspace():
                continue
            try:
                fields = json.loads(line.decode("utf-8-sig" if number == 0 else "utf-8"))
            except UnicodeDecodeError:
                yield BadRecord("invalid UTF-8")
            except (ValueError, RecursionError):
                yield BadRecord("invalid JSON")
            else:
                yield fields if isinstance(fields, dict) else BadRecord("not a JSON object")


def read_tsv(path: Path) -> Iterator[Record]:
    """Columns between tabs, never quoted.

    A first line that names an id and a text says what the columns are. Without one, two
    columns are id and text, three are id, title and text.
    """
    header: list[str] | None = None
    with open_bytes(path) as file:
        for number, line in enumerate(file):
            if line.isspace():
                continue
            try:
                columns = line.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n").split("\t")
            except UnicodeDecodeError:
                yield BadRecord("invalid UTF-8")
                continue
            if number == 0 and not (
                set(ID_FIELDS).isdisjoint(columns) or set(TEXT_FIELDS).isdisjoint(columns)
            ):
                header = columns
                continue
            names = header or {2: ["id", "text"], 3: ["id", "title", "text"]}.get(len(columns))
            if names is None or len(names) != len(columns):
                yield BadRecord("wrong number of columns")
            else:
                yield dict(zip(names, columns, strict=True))


def read_parquet(path: Path) -> Iterator[Record]:
    """One row a document; columns other than a document's fields are never read."""
    pa = import_pyarrow(path)
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name in _FIELDS]
            for batch in file.iter_batches(_PARQUET_BATCH, columns=columns):
                yield from _rows(batch)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"A Parquet file of the corpus is truncated or damaged ({error}); copy it again. "
            f"Received: {str(path)!r}."
        ) from error


def read_tfrecord(path: Path) -> Iterator[Record]:
    """`tf.train.Example`s with bytes (or, for ids, int64) features of a document's names."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    compression = "GZIP" if path.suffix == ".gz" else ""
    try:
        for serialized in tf.data.TFRecordDataset(str(path), compression_type=compression):
            example = tf.train.Example()
            try:
                example.ParseFromString(serialized.numpy())
                yield {name: _feature(feature) for name, feature in example.features.feature.items()}
            except UnicodeDecodeError:
                yield BadRecord("invalid UTF-8")
            except DecodeError:
                yield BadRecord("not a tf.train.Example")
    except tf.errors.DataLossError as error:
        raise InputError(
            f"A TFRecord file of the corpus is truncated or damaged; copy it again. Received: {str(path)!r}."
        ) from error


READERS: Mapping[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".tfrecord": read_tfrecord,
}


def _rows(batch: Any) -> Iterator[Record]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield BadRecord("invalid UTF-8")


def _feature(feature: Any) -> Any:
    """The single value of a feature; None of an empty or repeated one."""
    if len(feature.bytes_list.value) == 1:
        return feature.bytes_list.value[0].decode()
    if len(feature.int64_list.value) == 1:
        return feature.int64_list.value[0]
    return None
