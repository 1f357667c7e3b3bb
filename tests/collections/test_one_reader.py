"""Training, development sets, encoding and evaluation read the same folder in the same way."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.compression import COMPRESSIONS
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import Document
from xtr_tf.collections.judgements import read_judgements
from xtr_tf.collections.loading import load_datasets
from xtr_tf.config.training import SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.sources import open_datasets, open_source

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}
DOCUMENTS = [Document("d1", "A river.", "Nile"), Document("d2", "Two."), Document("d3", "Three.")]


def write(path: Path, *lines: str, suffix: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    Path(f"{path}{suffix}").write_bytes(COMPRESS[suffix](content))


def write_beir(folder: Path, *judged: str, suffix: str = "") -> Path:
    documents = [json.dumps({"_id": d.id, "title": d.title, "text": d.text}) for d in DOCUMENTS]
    write(folder / "corpus.jsonl", *documents, suffix=suffix)
    write(
        folder / "queries.jsonl",
        *(json.dumps({"_id": q, "text": f"{q}?"}) for q in ("q1", "q2")),
        suffix=suffix,
    )
    write(folder / "qrels" / "test.tsv", *(judged or ("q1\td1\t1", "q2\td2\t1", "q2\td3\t0")), suffix=suffix)
    return folder


def write_ms_marco(folder: Path, split: str = "dev") -> Path:
    write(folder / "collection.tsv", *(f"{document.id}\t{document.text}" for document in DOCUMENTS))
    write(folder / f"queries.{split}.tsv", "q1\tone?", "q2\ttwo?", "q9\tunjudged?")
    write(folder / f"qrels.{split}.tsv", "q1\t0\td1\t1", "q2\t0\td2\t1", "gone\t0\td2\t1")
    return folder


def examples(folder: Path, split: str = "test", limit: int = 0) -> list[TrainingExample]:
    sources = open_source(SourceConfig(path=str(folder), split=split), BadRecords(limit))
    return [source[index] for source in sources for index in range(len(source))]


def test_every_compression_is_tested() -> None:
    assert tuple(COMPRESS) == ("", *COMPRESSIONS)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_beir_folder_is_read_by_all(suffix: str, tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "rivers", suffix=suffix)
    assert list(CorpusReader(folder)) == DOCUMENTS
    [evaluated] = load_datasets([folder])
    [developed] = open_datasets(SourceConfig(path=str(folder), split="test"), BadRecords(0))
    for dataset in (evaluated, developed):
        assert [query.text for query in dataset.queries] == ["q1?", "q2?"]
        assert dataset.judgements == {"q1": {"d1": 1}, "q2": {"d2": 1, "d3": 0}}
        assert list(dataset.corpus) == DOCUMENTS
    first, second = examples(folder)
    assert (first.positives, first.negatives) == ((DOCUMENTS[0],), ())
    assert (second.positives, second.negatives) == ((DOCUMENTS[1],), (DOCUMENTS[2],))


def test_a_beir_folder_whose_corpus_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "rivers")
    (folder / "corpus.jsonl").rename(folder / "corpus.jsonl.lz4")
    with pytest.raises(InputError, match=r"no corpus\.jsonl.*rivers', which has qrels"):
        CorpusReader(folder)
    for read in (lambda: load_datasets([folder]), lambda: examples(folder)):
        with pytest.raises(InputError, match=r"lacks corpus\.jsonl .*rivers'"):
            read()


def test_the_corpus_of_a_folder_is_never_its_queries(tmp_path: Path) -> None:
    write(tmp_path / "a" / "queries.jsonl", '{"_id": "q1", "text": "who?"}')
    write(tmp_path / "b" / "queries.dev.tsv", "q1\twho?")
    for folder in ("a", "b"):
        with pytest.raises(InputError, match="has queries or judgements, but no corpus"):
            CorpusReader(tmp_path / folder)
    marco = CorpusReader(write_ms_marco(tmp_path / "marco"))
    assert [document.id for document in marco] == ["d1", "d2", "d3"]


@pytest.mark.parametrize(
    "judged",
    [
        ("q1 0 d1 1", "q2 0 d2 1", "q2 0 d3 0"),
        ("q1   0 d1\t1", "q2 Q0 d2 1", "q2 0 d3 0"),
        ("query-id\tcorpus-id\tscore", "q1\td1\t1.0", "q2\td2\t1.0", "q2\td3\t0.0"),
        ("\ufeffq1\td1\t1", "", "q2\td2\t1\r", "q2\td3\t0"),
    ],
)
def test_judgements_in_all_their_forms_are_read_by_all(judged: tuple[str, ...], tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "rivers", *judged)
    assert load_datasets([folder])[0].judgements == {"q1": {"d1": 1}, "q2": {"d2": 1, "d3": 0}}
    assert [example.id for example in examples(folder)] == ["q1", "q2"]


def test_ids_between_tabs_may_contain_blanks(tmp_path: Path) -> None:
    write(tmp_path / "qrels.tsv", "a query\ta document\t-1")
    assert read_judgements(tmp_path / "qrels.tsv") == {"a query": {"a document": -1}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [("q1\td1\t0.5", "integer grade"), ("q1\td1\tgood", "integer grade"), ("q1 d1", "3 or 4 columns, not 2")],
)
def test_a_line_that_is_not_a_judgement(line: str, reason: str, tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "rivers", "q1\td1\t1", line)
    with pytest.raises(InputError, match=rf"{reason}.*fix the file.*test\.tsv, line 2\."):
        load_datasets([folder])
    with pytest.raises(InputError, match=rf"test\.tsv, line 2: .*{reason}"):
        examples(folder)
    assert [example.id for example in examples(folder, limit=1)] == ["q1"]


def test_a_first_line_without_columns_is_not_a_header(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 or 4 columns, not 1.*line 1\."):
        load_datasets([write_beir(tmp_path / "rivers", "nonsense", "q1\td1\t1")])


def test_ms_marco_is_a_dataset(tmp_path: Path) -> None:
    folder = write_ms_marco(tmp_path / "msmarco")
    [dataset] = load_datasets([folder])
    assert (dataset.name, dataset.metric, dataset.language) == ("msmarco", "MRR@10", "en")
    assert [query.text for query in dataset.queries] == ["one?", "two?"]
    assert dataset.judgements == {"q1": {"d1": 1}, "q2": {"d2": 1}}
    assert [document.text for document in dataset.corpus] == ["A river.", "Two.", "Three."]
    assert (dataset.unjudged_queries, dataset.unknown_queries) == (1, ("gone",))
    write_ms_marco(folder, "dev.small")
    write(folder / "queries.dev.small.tsv", "q2\ttwo?")
    assert [query.id for query in load_datasets([folder])[0].queries] == ["q2"]
    assert [query.id for query in load_datasets([folder], "dev")[0].queries] == ["q1", "q2"]
    with pytest.raises(InputError, match=r"lacks queries\.train\.tsv"):
        load_datasets([folder], "train")
    assert [example.query for example in examples(folder, "dev", limit=1)] == ["one?", "two?"]


def test_ms_marco_among_other_datasets(tmp_path: Path) -> None:
    write_ms_marco(tmp_path / "all" / "marco_de")
    write_beir(tmp_path / "all" / "rivers")
    datasets = load_datasets([tmp_path / "all"])
    assert [(dataset.name, dataset.language) for dataset in datasets] == [
        ("marco_de", "de"),
        ("all/rivers", "und"),
    ]


def test_training_looks_only_at_judged_documents(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "rivers")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d4", "text": ""}\n{"_id": "d1", "text": "again"}\n')
    with pytest.raises(InputError, match=r"corpus\.jsonl, line 5: duplicate id"):
        examples(folder)
    assert examples(folder, limit=1)[0].positives == (DOCUMENTS[0],)
    reader = CorpusReader(folder)
    assert list(reader) == DOCUMENTS
    assert reader.first_skipped == {"empty": "corpus.jsonl:4", "duplicate id": "corpus.jsonl:5"}
    assert list(reader.only({"d2", "absent"})) == [DOCUMENTS[1]]


def test_places_are_lines_even_after_blank_ones(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", '{"id": 1, "text": "a"}', "", " ", "{")
    reader = CorpusReader(tmp_path)
    assert [document.id for document in reader] == ["1"]
    assert reader.first_skipped == {"invalid JSON": "corpus.jsonl:4"}
