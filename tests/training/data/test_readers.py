"""All formats give the same examples; bad records are counted, shown and limited."""

from __future__ import annotations

import gzip
import json
import lzma
import math

import pytest

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.document import Document
from xtr_tf.collections.lines import read_lines, read_quoted
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.sources import check_sources, open_datasets, open_source

FULL = {
    "id": "q1",
    "query": "who?",
    "positives": [{"id": "d1", "title": "T", "text": "one", "score": 3.5}, "two"],
    "negatives": [{"id": "d9", "text": "nine"}],
    "language": "de",
}


def write_lines(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def examples(path, limit=0, **config):
    sources = open_source(SourceConfig(path=str(path), **config), BadRecords(limit))
    return [source[i] for source in sources for i in range(len(source))]


def test_every_form_of_jsonl_is_read(tmp_path):
    path = write_lines(
        tmp_path / "pairs.jsonl",
        FULL,
        "",
        {"query": "a", "title": "t", "text": "b"},
        {"query": "c", "positive": "d", "negative": "e"},
    )
    full, pair, triple = examples(path, language="en")
    assert full.id == "q1"
    assert full.language == "de"
    assert full.positives[0] == Document("d1", "one", "T")
    assert full.positives[0].full_text == "T one"
    assert full.positives[1].text == "two"
    assert full.teacher_score(0) == 3.5
    assert math.isnan(full.teacher_score(1))
    assert math.isnan(full.teacher_score(2))
    assert full.negatives[0].id == "d9"
    assert (pair.query, pair.positives[0].full_text, pair.language) == ("a", "t b", "en")
    assert (triple.positives[0].text, triple.negatives[0].text) == ("d", "e")


def test_a_null_id_is_no_id(tmp_path):
    path = write_lines(
        tmp_path / "pairs.jsonl",
        {"id": None, "query": "a", "positive": {"id": None, "text": "b"}},
        {"id": None, "_id": "q", "query": "a", "positive": {"id": None, "docid": 7, "text": "b"}},
    )
    unnamed, named = examples(path)
    assert (unnamed.id, unnamed.positives[0].id) == ("", "")
    assert (named.id, named.positives[0].id) == ("q", "7")


def test_a_null_id_in_a_collection_is_a_bad_record(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "x"}, {"_id": None, "text": "y"})
    write_lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "one"})
    write_lines(tmp_path / "qrels" / "train.tsv", "q\td1\t1")
    with pytest.raises(InputError, match="line 2: no id"):
        examples(tmp_path)


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_and_patterns_are_read(tmp_path, suffix, compress):
    for name in ("b", "a"):
        line = json.dumps({"query": name, "text": "x"}).encode() + b"\n"
        (tmp_path / f"{name}.jsonl{suffix}").write_bytes(compress(line))
    assert [example.query for example in examples(tmp_path / f"*.jsonl{suffix}")] == ["a", "b"]


def test_tsv_triples_are_read(tmp_path):
    path = write_lines(tmp_path / "triples.tsv", "q\tgood\tbad\tworse", "q2\tgood2")
    first, second = examples(path, language="en")
    assert (first.query, first.positives[0].text) == ("q", "good")
    assert [document.text for document in first.negatives] == ["bad", "worse"]
    assert second.negatives == ()


def test_tfrecords_survive_a_round_trip(tmp_path):
    import tensorflow as tf

    from xtr_tf.training.data.tfrecords import serialize_example

    written = [
        TrainingExample.from_json(FULL, "en"),
        TrainingExample("", "日本?", (Document("", "東京"),), (), "ja"),
    ]
    for path, options in (("a.tfrecord", None), ("a.tfrecord.gz", "GZIP")):
        with tf.io.TFRecordWriter(str(tmp_path / path), options) as writer:
            for example in written:
                writer.write(serialize_example(example))
        assert repr(examples(tmp_path / path)) == repr(written)


def test_a_truncated_tfrecord_is_a_bad_record(tmp_path):
    import tensorflow as tf

    from xtr_tf.training.data.tfrecords import serialize_example

    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(2):
            writer.write(serialize_example(TrainingExample.from_json(FULL, "en")))
        writer.write(b"nonsense")
    assert len(examples(path, limit=1)) == 2
    path.write_bytes(path.read_bytes()[:-30])
    assert len(examples(path, limit=1)) == 1
    with pytest.raises(InputError, match=r"a\.tfrecord, line 2: the file ends within"):
        examples(path)


def test_beir_is_read(tmp_path):
    write_lines(
        tmp_path / "corpus.jsonl", *({"_id": f"d{i}", "title": "t", "text": str(i)} for i in range(4))
    )
    write_lines(
        tmp_path / "queries.jsonl",
        {"_id": "q1", "text": "one", "language": "fr"},
        {"_id": "q2", "text": "two"},
    )
    write_lines(
        tmp_path / "qrels" / "train.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td0\t0", "q2\td2\t1"
    )
    first, second = examples(tmp_path, language="en")
    assert (first.id, first.language, second.language) == ("q1", "fr", "en")
    assert [document.id for document in first.positives] == ["d1"]
    assert [document.full_text for document in first.negatives] == ["t 0"]
    (dataset,) = open_datasets(SourceConfig(path=str(tmp_path)), BadRecords(0))
    assert len(list(dataset.corpus)) == 4
    assert dataset.judgements == {"q1": {"d1": 2, "d0": 0}, "q2": {"d2": 1}}


def test_ms_marco_is_read(tmp_path):
    write_lines(tmp_path / "collection.tsv", *(f"{i}\tpassage {i}" for i in range(6)))
    write_lines(tmp_path / "queries.train.tsv", "10\tten", "11\televen", "99\tunjudged")
    write_lines(tmp_path / "qrels.train.tsv", "10\t0\t1\t1", "11\t0\t2\t1", "11\t0\t3\t1")
    write_lines(tmp_path / "qidpidtriples.train.full.tsv", "10\t1\t4")
    write_lines(tmp_path / "msmarco-hard-negatives.jsonl", {"qid": 11, "neg": {"bm25": [5, 2], "other": [0]}})
    first, second = examples(tmp_path, language="en")
    assert (first.query, first.language) == ("ten", "en")
    assert [document.text for document in first.negatives] == ["passage 4"]
    assert [document.id for document in second.positives] == ["2", "3"]
    assert [document.id for document in second.negatives] == ["5", "0"]


def test_miracl_is_read(tmp_path):
    for language in ("sw", "fi"):
        name = f"miracl-v1.0-{language}"
        write_lines(tmp_path / name / "topics" / f"topics.{name}-dev.tsv", f"1\tquery {language}")
        write_lines(tmp_path / name / "qrels" / f"qrels.{name}-dev.tsv", "1\tQ0\t7#0\t1", "1\tQ0\t7#1\t0")
        corpus = tmp_path / f"miracl-corpus-v1.0-{language}" / "docs-0.jsonl.gz"
        corpus.parent.mkdir()
        lines = [json.dumps({"docid": f"7#{i}", "title": "t", "text": f"{language} {i}"}) for i in range(3)]
        corpus.write_bytes(gzip.compress("\n".join(lines).encode()))
    finnish, swahili = examples(tmp_path, split="dev")
    assert (finnish.language, swahili.language) == ("fi", "sw")
    assert swahili.positives[0].full_text == "t sw 0"
    assert swahili.negatives[0].text == "sw 1"
    assert len(examples(tmp_path, split="dev", language="sw")) == 1
    with pytest.raises(InputError, match="no MIRACL topics of split 'train'"):
        examples(tmp_path)


def test_the_example_corpus_is_read(repository):
    found = examples(repository / "examples" / "atlas")
    assert len(found) == 540
    assert len({example.language for example in found}) > 3


BAD = ["{", "[]", '{"query": "a"}', '{"query": "", "text": "x"}', '{"query": "a", "text": 3}',
       '{"query": "a", "positives": "x"}', '{"query": "a", "positives": [{"text": ""}]}',
       r'{"query": "\ud800", "text": "x"}', r'{"query": "a", "text": "\udc00"}']  # fmt: skip


def test_bad_records_are_skipped_up_to_the_limit_and_then_named(tmp_path, caplog):
    path = write_lines(tmp_path / "a.jsonl", {"query": "good", "text": "x"}, *BAD)
    assert [example.query for example in examples(path, limit=len(BAD))] == ["good"]
    assert "line 2: invalid JSON" in caplog.text
    with pytest.raises(
        InputError, match=r"More than 2 bad records.*a\.jsonl, line 4: the record has neither"
    ):
        examples(path, limit=2)


@pytest.mark.parametrize(
    ("judgement", "sentence"),
    [
        ("q\tgone\t1", "document 'gone' of query 'q' is absent"),
        ("other\td1\t1", "query 'other' is judged, but absent"),
    ],
)
def test_a_judgement_of_an_unknown_id_is_a_bad_record(tmp_path, judgement, sentence):
    write_lines(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "x"})
    write_lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "one"})
    write_lines(tmp_path / "qrels" / "train.tsv", "q\td1\t1", judgement)
    assert len(examples(tmp_path, limit=1)[0].positives) == 1
    with pytest.raises(InputError, match=sentence):
        examples(tmp_path)


@pytest.mark.parametrize("field", ["id", "query", "title", "text"])
def test_half_a_character_is_not_utf8(field):
    record = {"id": "1", "query": "a", "title": "b", "text": "c", field: "\ud83d"}
    with pytest.raises(ValueError, match="invalid UTF-8"):
        TrainingExample.from_json(record, "en")


def test_half_a_character_in_a_query_of_a_collection_is_a_bad_record(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "x"})
    write_lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "\ud83d"})
    write_lines(tmp_path / "qrels" / "train.tsv", "q\td1\t1")
    with pytest.raises(InputError, match="line 1: invalid UTF-8"):
        examples(tmp_path)


@pytest.mark.parametrize("damage", [lambda whole: whole[:-20], lambda whole: whole[:30] + b"\xff" * 60])
def test_damaged_compressed_files_are_input_errors(tmp_path, damage):
    lines = "".join(json.dumps({"query": f"{n}", "text": "x" * n}) + "\n" for n in range(200))
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(damage(gzip.compress(lines.encode())))
    with pytest.raises(InputError, match=r"damaged .*pairs\.jsonl\.gz"):
        examples(path)
    with pytest.raises(InputError, match=r"damaged .*pairs\.jsonl\.gz"):
        list(read_lines(path))
    with pytest.raises(InputError, match=r"damaged .*pairs\.jsonl\.gz"):
        list(read_quoted(path))


def test_unusable_paths_are_input_errors(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"")
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    write_lines(tmp_path / "beir" / "queries.jsonl", {"_id": "q", "text": "one"})
    for path, config, message in (
        ("absent", {}, "does not exist"),
        ("", {}, "does not exist"),
        ("x.bin", {}, "cannot be recognised"),
        ("x.bin", {"format": "beir"}, "is a folder"),
        ("beir", {"format": "jsonl"}, "is a file"),
        ("beir", {}, r"lacks qrels/train\.tsv"),
        ("broken.jsonl.gz", {}, "damaged"),
    ):
        with pytest.raises(InputError, match=message):
            examples(tmp_path / path if path else "", **config)
    with pytest.raises(InputError, match="damaged"):
        open_datasets(SourceConfig(path=str(tmp_path / "broken.jsonl.gz")), BadRecords(0))


def test_a_file_of_examples_is_a_set_to_search(tmp_path):
    one = {"query": "one?", "language": "en", "positive": {"id": "a", "text": "first"}, "negative": "other"}
    two = {"query": "two?", "language": "de", "positives": [{"id": "b", "text": "second"}, "other"]}
    path = write_lines(tmp_path / "dev.jsonl", json.dumps(one), json.dumps(two))
    (dataset,) = open_datasets(SourceConfig(path=str(path)), BadRecords(0))
    assert [query.text for query in dataset.queries] == ["one?", "two?"]
    assert [query.language for query in dataset.queries] == ["en", "de"]
    assert sorted(document.id for document in dataset.corpus) == ["a", "b", "other"]
    assert list(dataset.judgements.values()) == [{"a": 1}, {"b": 1, "other": 1}]


def test_a_refused_set_is_named_by_its_key(tmp_path):
    good = SourceConfig(str(write_lines(tmp_path / "a.jsonl", "{}")))
    (tmp_path / "a.bin").write_bytes(b"")
    bad = SourceConfig(str(tmp_path / "a.bin"))
    check_sources(DataConfig(train=(good,), dev=(good,)))
    with pytest.raises(InputError, match=r"`data\.dev\[1\]`: The format cannot be recognised from the path"):
        check_sources(DataConfig(train=(good,), dev=(good, bad)))
    with pytest.raises(InputError, match=r"`data\.train\[0\]`: A data set does not exist"):
        check_sources(DataConfig(train=(SourceConfig("nowhere.jsonl"),)))


def test_bad_records_may_be_limited_by_share():
    records = BadRecords(0.1)
    for line in range(1, 12):
        records.skip("a.jsonl", line, "no query")
    with pytest.raises(
        InputError, match=r"11 of 100 records are bad, more than 10\.0%.*a\.jsonl, line 1: no"
    ):
        records.report(usable=89)
    records.report(usable=99)  # a tenth of 110


def test_the_current_folder_is_a_data_set(repository, monkeypatch):
    monkeypatch.chdir(repository / "examples" / "atlas")
    assert len(examples(".")) == 540


def test_records_of_texts_are_refused_as_tokenized_ones(tmp_path):
    import tensorflow as tf

    from xtr_tf.training.data.tfrecords import serialize_example
    from xtr_tf.training.data.tokenized import TokenizedData

    path = tmp_path / "texts.tfrecord"
    for record in (serialize_example(TrainingExample.from_json(FULL, "en")), b"no example"):
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(record)
        config = DataConfig(train=(SourceConfig(str(path), format="tokenized"),))
        with pytest.raises(InputError, match=r"holds other records.*texts\.tfrecord"):
            TokenizedData(config, TokenizerConfig(), seed=0)
