"""Typed fields, from every format, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import DocumentRecord
from xtr_tf.collections.fields import parse_declarations, read_fields
from xtr_tf.errors import InputError

FIELDS = {"source": "keyword", "tags": "keywords", "year": "int", "price": "float", "public": "bool"}
VALUES = {"source": "wiki", "tags": ["b", "a"], "year": 2020, "price": 1.5, "public": True}
EXPECTED = {**VALUES, "tags": ["a", "b"]}


def read(path: Path) -> list[dict]:
    return [dict(document.fields) for document in CorpusReader(path, fields=FIELDS)]


def test_jsonl_and_beirs_metadata(tmp_path):
    file = tmp_path / "corpus.jsonl"
    lines = [
        {"_id": "a", "text": "x", **VALUES, "other": [1]},
        {"_id": "b", "text": "x", "metadata": VALUES},
        {"_id": "c", "text": "x", "year": None},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert read(file) == [EXPECTED, EXPECTED, {}]


def test_tsv(tmp_path):
    file = tmp_path / "corpus.tsv"
    file.write_text(
        "id\ttext\tsource\ttags\tyear\tprice\tpublic\n1\tx\twiki\tb|a\t2020\t1.5\ttrue\n2\tx\t\t\t\t\t\n"
    )
    assert read(file) == [EXPECTED, {"source": "", "tags": []}]


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"id": "1", "text": "x", **VALUES}, {"id": "2", "text": "x"}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    assert read(tmp_path / "c.parquet") == [EXPECTED, {}]


def test_tfrecords(tmp_path):
    import tensorflow as tf

    def example(**features):
        kinds = {
            str: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode()])),
            list: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=[t.encode() for t in v])),
            int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=[v])),
            float: lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=[v])),
        }
        made = {name: kinds[type(value)](value) for name, value in features.items()}
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()

    with tf.io.TFRecordWriter(str(tmp_path / "c.tfrecord")) as writer:
        writer.write(example(id="1", text="x", **{**VALUES, "public": 1}))
        writer.write(example(id="2", text="x", tags=["a|b"]))
    assert read(tmp_path / "c.tfrecord") == [EXPECTED, {"tags": ["a|b"]}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("year", "soon"),
        ("year", 2020.5),
        ("year", True),
        ("year", 2**63),
        ("price", float("nan")),
        ("price", float("inf")),
        ("price", "dear"),
        ("price", 1e39),
        ("public", "maybe"),
        ("public", 2),
        ("source", 3),
        ("source", ["a"]),
        ("tags", 3),
        ("tags", [1]),
    ],
)
def test_a_value_of_another_type_is_an_error_with_its_line(tmp_path, name, value):
    file = tmp_path / "corpus.jsonl"
    file.write_text(
        json.dumps({"_id": "a", "text": "x"}) + "\n" + json.dumps({"_id": "b", "text": "x", name: value})
    )
    with pytest.raises(
        InputError, match=rf"corpus.jsonl, line 2: The field `{name}` is declared as .* Received:"
    ):
        read(file)


@pytest.mark.parametrize(
    "declarations",
    [["year"], ["year:int", "year:float"], ["year:date"], ["text:keyword"], ["a-b:int"], [":int"]],
)
def test_invalid_declarations(declarations):
    with pytest.raises(InputError, match="Received:"):
        parse_declarations(declarations)


def test_declarations_and_records():
    assert parse_declarations(["year:int", "tags:keywords"]) == {"year": "int", "tags": "keywords"}
    assert read_fields({"year": "7"}, {"year": "int", "tags": "keywords"}) == {"year": 7}
    record = DocumentRecord("a", "", "en", "hash", "text", {"year": 7})
    assert DocumentRecord.from_json(record.to_json()) == record
    assert "fields" not in DocumentRecord("a", "", "en", "hash").to_json()
