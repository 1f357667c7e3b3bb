"""ExampleGen's readers on the example corpus, on bad records, and in a real Beam pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import tensorflow as tf
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, is_not_empty

from tfx_pipeline.data import example_gen
from xtr_tf.training.data.tfrecords import parse_example


def values(record: bytes, name: str) -> list[str]:
    feature = tf.train.Example.FromString(record).features.feature[name]
    return [value.decode() for value in feature.bytes_list.value]


def test_a_beir_split_is_joined_into_examples(repository: Path) -> None:
    records = list(example_gen.read_training_file("atlas/qrels/train.tsv", str(repository / "examples")))
    assert len(records) == 540
    first = parse_example(records[0], "und")
    assert (first.id, first.language) == ("en-sahara-q1", "en")
    assert first.positives[0].id == "en-sahara"
    assert "Sahara" in first.positives[0].text


def test_documents_survive_the_round_trip(repository: Path) -> None:
    records = list(example_gen.read_corpus_file("corpus.jsonl", str(repository / "examples" / "atlas")))
    assert len(records) == 300
    first = json.loads((repository / "examples/atlas/corpus.jsonl").read_text().splitlines()[0])
    document = example_gen.parse_document(records[0])
    assert (document.id, document.title) == (first["_id"], first["title"])
    assert (document.text, document.language) == (first["text"], first["language"])


def test_a_bad_record_becomes_a_defect_with_file_and_line(tmp_path: Path) -> None:
    lines = [
        {"id": "1", "query": "", "positives": [{"id": "x", "text": "t"}]},
        {"id": "2", "query": "q", "positives": []},
        {"id": "3", "query": "q", "positives": [{"id": "x", "text": "t"}], "language": "en"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = list(example_gen.read_training_file("a.jsonl", str(tmp_path)))
    assert [values(record, "id") for record in records] == [["3"], [], []]
    defects = [values(record, "defect") for record in records[1:]]
    assert defects[0] == ["a.jsonl, line 1: the record has no `query`"]
    assert defects[1][0].startswith("a.jsonl, line 2: ")


def test_a_document_without_text_becomes_a_defect(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"_id": "a", "text": "one"}\n{"_id": "b", "text": " "}\n')
    good, bad = example_gen.read_corpus_file("c.jsonl", str(tmp_path))
    assert values(good, "id") == ["a"]
    assert values(bad, "defect")[0].startswith("c.jsonl:2: ")


def test_beam_reads_every_file_that_matches_a_pattern(tmp_path: Path) -> None:
    for name in "ab":
        line = {"id": name, "query": "q", "positives": [{"id": "x", "text": "t"}]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    transform = example_gen.TrainingExecutor().GetInputSourceToExamplePTransform()
    with TestPipeline() as pipeline:
        records = pipeline | transform({"input_base": str(tmp_path)}, "*.jsonl")
        ids = records | beam.Map(lambda record: values(record, "id")[0])
        assert_that(ids, is_not_empty(), label="not empty")
        assert_that(
            ids | beam.combiners.ToList() | beam.Map(sorted),
            lambda found: _same(found, [["a", "b"]]),
            label="both",
        )


def _same(found: list[list[str]], wanted: list[list[str]]) -> None:
    assert found == wanted
