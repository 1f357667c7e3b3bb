from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError

DOCUMENTS = [
    Document("1", "The Nile flows north.", "Nile", "en"),
    Document("2", "東京は日本の首都である。", "東京", "ja"),
    Document("3", "no title here", "", "und"),
]


def as_fields(document: Document) -> dict[str, str]:
    return {
        "_id": document.id,
        "title": document.title,
        "text": document.text,
        "language": document.language,
    }


def jsonl(documents: list[Document]) -> bytes:
    return "".join(
        json.dumps(as_fields(document), ensure_ascii=False) + "\n" for document in documents
    ).encode()


def tsv(documents: list[Document]) -> bytes:
    rows = ["id\ttitle\ttext\tlanguage"]
    rows += [
        f"{document.id}\t{document.title}\t{document.text}\t{document.language}" for document in documents
    ]
    return "\r\n".join(rows).encode()


def write_parquet(path: Path) -> None:
    rows = [{**as_fields(document), "views": 7, "topic": None} for document in DOCUMENTS]
    parquet.write_table(pa.Table.from_pylist(rows), path)


def write_tfrecord(path: Path, compression: str = "") -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for document in DOCUMENTS:
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
                for name, value in as_fields(document).items()
            }
            features["_id"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(document.id)]))
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("corpus.jsonl", lambda path: path.write_bytes(jsonl(DOCUMENTS))),
        ("marked.jsonl", lambda path: path.write_bytes(b"\xef\xbb\xbf" + jsonl(DOCUMENTS))),
        ("corpus.jsonl.gz", lambda path: path.write_bytes(gzip.compress(jsonl(DOCUMENTS)))),
        (
            "corpus.jsonl.zst",
            lambda path: path.write_bytes(pa.compress(jsonl(DOCUMENTS), "zstd", asbytes=True)),
        ),
        ("corpus.tsv", lambda path: path.write_bytes(tsv(DOCUMENTS))),
        ("corpus.tsv.gz", lambda path: path.write_bytes(gzip.compress(tsv(DOCUMENTS)))),
        ("corpus.parquet", write_parquet),
        ("corpus.tfrecord", write_tfrecord),
        ("corpus.tfrecord.gz", lambda path: write_tfrecord(path, "GZIP")),
    ],
)
def test_every_format_gives_the_same_documents(
    name: str, write: Callable[[Path], object], tmp_path: Path
) -> None:
    write(tmp_path / name)
    reader = CorpusReader(tmp_path / name)
    assert list(reader) == DOCUMENTS
    assert not reader.skipped
    assert list(reader) == DOCUMENTS, "a second iteration starts afresh"


def test_tsv_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_text("7\tjust text\n")
    (tmp_path / "three.tsv").write_text("8\ta title\tand text\n9\ta\tb\tc\n")
    reader = CorpusReader(tmp_path, language="en")
    assert list(reader) == [
        Document("8", "and text", "a title", "en"),
        Document("7", "just text", "", "en"),
    ]
    assert reader.skipped == {"wrong number of columns": 1}


def test_the_example_corpus_is_a_beir_folder(repository: Path) -> None:
    reader = CorpusReader(repository / "examples" / "atlas")
    documents = list(reader)
    assert [file.name for file in reader.files] == ["corpus.jsonl"]
    assert len(documents) == 300
    assert documents[0].id == "en-everest"
    assert len({document.language for document in documents}) == 10


def test_bad_records_are_counted_with_their_reason_and_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"id": "1", "text": "good"}\n'
        b'{"id": "2", "text": "\xff\xfe"}\n'
        b'{"id": "3", "text": "\\ud800"}\n'
        b"\n"
        b'{"id": "4", "text": \n'
        b"[1]\n"
        b'{"text": "nameless"}\n'
        b'{"id": "", "text": "nameless"}\n'
        b'{"id": "5", "text": "  ", "title": null}\n'
        b'{"id": "6", "text": ["a"]}\n'
        b'{"id": true, "text": "a"}\n'
        b'{"id": 8, "title": "only a title"}\n'
    )
    (tmp_path / "b.jsonl").write_text('{"id": "1", "text": "again"}\n{"id": "9", "contents": "last"}\n')
    reader = CorpusReader(tmp_path)
    assert list(reader) == [
        Document("1", "good"),
        Document("8", "", "only a title"),
        Document("9", "last"),
    ]
    assert reader.skipped == {
        "invalid UTF-8": 2,
        "invalid JSON": 1,
        "not a JSON object": 1,
        "no id": 2,
        "empty": 1,
        "a field is not a string": 2,
        "duplicate id": 1,
    }
    assert reader.first_skipped["invalid UTF-8"] == "a.jsonl:2"
    assert reader.first_skipped["duplicate id"] == "b.jsonl:1"


def test_invalid_utf8_in_parquet_and_tfrecord(tmp_path: Path) -> None:
    import tensorflow as tf

    column = pa.array([b"good", b"\xff"], pa.binary()).view(pa.utf8())
    table = pa.table({"id": ["1", "2"], "text": column})
    parquet.write_table(table, tmp_path / "a.parquet")
    with tf.io.TFRecordWriter(str(tmp_path / "b.tfrecord")) as writer:
        writer.write(b"\xff not a proto")
    reader = CorpusReader(tmp_path)
    assert list(reader) == [Document("1", "good")]
    assert reader.skipped == {"invalid UTF-8": 1, "not a tf.train.Example": 1}


@pytest.mark.parametrize("name", ["corpus.jsonl.gz", "corpus.jsonl.zst", "corpus.parquet", "corpus.tfrecord"])
def test_a_truncated_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(jsonl(DOCUMENTS)))
    elif name.endswith(".zst"):
        path.write_bytes(pa.compress(jsonl(DOCUMENTS), "zstd", asbytes=True))
    elif name.endswith(".parquet"):
        write_parquet(path)
    else:
        write_tfrecord(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"truncated or damaged.*Received: "):
        list(CorpusReader(path))


@pytest.mark.parametrize("name", ["missing.jsonl", "notes.txt", "empty-folder", "corpus.parquet.gz"])
def test_what_is_not_a_corpus_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "corpus.parquet.gz").write_bytes(b"")
    (tmp_path / "empty-folder").mkdir()
    with pytest.raises(InputError, match="A corpus is a"):
        CorpusReader(tmp_path / name)


@pytest.mark.parametrize("content", ["", "\n\n", '{"id": "1", "text": ""}\n'])
def test_zero_documents_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(content)
    with pytest.raises(InputError, match="no document that can be encoded"):
        list(CorpusReader(tmp_path))


def test_a_corpus_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(jsonl(DOCUMENTS))
    documents = iter(CorpusReader(path))
    next(documents)
    with path.open("ab") as file:
        file.write(b'{"id": "4", "text": "late"}\n')
    with pytest.raises(InputError, match="changed while it was being read"):
        list(documents)
