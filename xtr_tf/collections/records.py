"""The file formats of a corpus: each reader yields the numbered records of a file.

A record is a mapping of field names to values; `Document.from_fields` makes a document from it. Readers call
`on_bad` for a record that cannot be read, and raise `InputError` for a file that cannot be read to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from xtr_tf.collections.bad_records import OnBadRecord
from xtr_tf.collections.compression import damaged, import_pyarrow
from xtr_tf.collections.document import ID_FIELDS, LANGUAGE_FIELDS, TEXT_FIELDS, TITLE_FIELDS
from xtr_tf.collections.fields import METADATA
from xtr_tf.collections.lines import read_objects, split_lines

_FIELDS = frozenset({*ID_FIELDS, *TEXT_FIELDS, *TITLE_FIELDS, *LANGUAGE_FIELDS, METADATA})
_PARQUET_BATCH = 1024

#: Records with their numbers, from 1 (line numbers in text files).
Records = Iterator[tuple[int, Mapping[str, Any]]]


def read_jsonl(path: Path, on_bad: OnBadRecord, fields: Mapping[str, str] | None = None) -> Records:
    """Reads one JSON object per line.

    Args:
        path: The file, plain or compressed.
        on_bad: Called for a line that is not a JSON object.
        fields: Not used: every key is read.

    Returns:
        The records with their line numbers.
    """
    return read_objects(path, on_bad)


def read_tsv(path: Path, on_bad: OnBadRecord, fields: Mapping[str, str] | None = None) -> Records:
    """Reads tab-separated columns without quotes.

    If the first line names an id and a text, it is a header. Otherwise two columns are id and text, and three
    are id, title and text.

    Args:
        path: The file, plain or compressed.
        on_bad: Called for a line with the wrong number of columns.
        fields: Not used: every column is read.

    Yields:
        The records with their line numbers.
    """
    header: list[str] | None = None
    is_first = True
    for number, columns in split_lines(path, on_bad):
        named = not (set(ID_FIELDS).isdisjoint(columns) or set(TEXT_FIELDS).isdisjoint(columns))
        if is_first and named:
            header = columns
        else:
            names = header or {2: ["id", "text"], 3: ["id", "title", "text"]}.get(len(columns))
            if names is None or len(names) != len(columns):
                on_bad(path, number, "wrong number of columns")
            else:
                yield number, dict(zip(names, columns, strict=True))
        is_first = False


def read_parquet(path: Path, on_bad: OnBadRecord, fields: Mapping[str, str] | None = None) -> Records:
    """Reads one document per row, and only the columns of a document and of declared fields.

    Args:
        path: The file.
        on_bad: Called for a row that is not UTF-8.
        fields: Types of declared fields by name.

    Yields:
        The records with the numbers of their rows, from 1.

    Raises:
        InputError: The file is damaged, or PyArrow is not installed.
    """
    pa = import_pyarrow(path)
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name in _FIELDS or name in (fields or {})]
            for batch in file.iter_batches(_PARQUET_BATCH, columns=columns):
                for row in _rows(batch):
                    number += 1
                    if row is None:
                        on_bad(path, number, "invalid UTF-8")
                    else:
                        yield number, row
    except (pa.ArrowInvalid, OSError) as error:
        raise damaged(path, error) from error


def _rows(batch: Any) -> Iterator[Mapping[str, Any] | None]:
    """Yields the rows of a batch, and None for a row that is not UTF-8."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield None


def read_tfrecord(path: Path, on_bad: OnBadRecord, fields: Mapping[str, str] | None = None) -> Records:
    """Reads `tf.train.Example`s with a feature per document field: bytes, or int64 for ids.

    Args:
        path: The file, plain or compressed with gzip.
        on_bad: Called for a record that is not a `tf.train.Example`, or not UTF-8.
        fields: Types of declared fields by name.

    Yields:
        The records with their numbers, from 1.

    Raises:
        InputError: The file is damaged.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    wanted = fields or {}
    compression = "GZIP" if path.suffix == ".gz" else ""
    records = tf.data.TFRecordDataset(str(path), compression_type=compression)
    try:
        for number, serialized in enumerate(records.as_numpy_iterator(), start=1):
            example = tf.train.Example()
            try:
                example.ParseFromString(serialized)
                record = {
                    name: _values(feature, wanted[name]) if name in wanted else _feature(feature)
                    for name, feature in example.features.feature.items()
                }
            except UnicodeDecodeError:
                on_bad(path, number, "invalid UTF-8")
            except DecodeError:
                on_bad(path, number, "not a tf.train.Example")
            else:
                yield number, record
    except tf.errors.DataLossError as error:
        raise damaged(path, error) from error


def _feature(feature: Any) -> Any:
    """Returns the value of a feature; None unless it has exactly one."""
    if len(feature.bytes_list.value) == 1:
        return feature.bytes_list.value[0].decode()
    if len(feature.int64_list.value) == 1:
        return feature.int64_list.value[0]
    return None


def _values(feature: Any, kind: str) -> Any:
    """Returns the value of a declared field: a list for `keywords`, otherwise None unless there is one."""
    values = [
        *(value.decode() for value in feature.bytes_list.value),
        *feature.int64_list.value,
        *feature.float_list.value,
    ]
    if kind == "keywords":
        return values or None
    return values[0] if len(values) == 1 else None


#: Readers by suffix, without that of a compression; they take the declared fields.
READERS: Mapping[str, Callable[[Path, OnBadRecord, Mapping[str, str] | None], Records]] = {
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".tfrecord": read_tfrecord,
}
#: Formats with their own compression, and the last suffixes that they may have.
SELF_COMPRESSED = {".parquet": (".parquet",), ".tfrecord": (".tfrecord", ".gz")}
