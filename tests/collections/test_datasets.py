"""Every layout is read from small files written in its real format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from xtr_tf.collections.dataset import Dataset, language_of_name
from xtr_tf.collections.loading import load_datasets
from xtr_tf.errors import InputError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def write_beir(folder: Path, split: str = "test", judged: str = "q1\td1\t2\nq1\td9\t1\nq2\td2\t0\n") -> Path:
    documents = [
        {"_id": "d1", "title": "Nile", "text": "A river."},
        {"_id": "d2", "title": "", "text": "Two."},
    ]
    queries = [{"_id": f"q{number}", "text": f"question {number}", "metadata": {}} for number in (1, 2, 3)]
    write(folder / "corpus.jsonl", "".join(json.dumps(document) + "\n" for document in documents))
    write(folder / "queries.jsonl", "".join(json.dumps(query) + "\n" for query in queries))
    write(folder / "qrels" / f"{split}.tsv", f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def load_one(folder: Path, split: str | None = None) -> Dataset:
    [dataset] = load_datasets([folder], split)
    return dataset


def test_beir_folder(tmp_path: Path) -> None:
    dataset = load_one(write_beir(tmp_path / "cities_de"))
    assert [query.id for query in dataset.queries] == ["q1", "q2"]
    assert dataset.judgements == {"q1": {"d1": 2, "d9": 1}, "q2": {"d2": 0}}
    assert [document.full_text for document in dataset.corpus] == ["Nile A river.", "Two."]
    assert [document.id for document in dataset.corpus] == ["d1", "d2"], "a corpus can be read twice"
    assert (dataset.language, dataset.metric, dataset.unjudged_queries) == ("de", "nDCG@10", 1)
    assert not dataset.ignores_own_document


def test_known_beir_datasets_are_averaged_without_ms_marco(tmp_path: Path) -> None:
    for name in ("arguana", "scifact"):
        write_beir(tmp_path / "beir" / name)
    write_beir(tmp_path / "beir" / "msmarco", split="dev")
    write_beir(tmp_path / "beir" / "msmarco", split="test", judged="q3\td1\t3\n")
    datasets = {dataset.name: dataset for dataset in load_datasets([tmp_path / "beir"])}
    assert {name: dataset.in_average for name, dataset in datasets.items()} == {
        "arguana": True,
        "scifact": True,
        "msmarco": False,
    }
    assert {dataset.collection for dataset in datasets.values()} == {"BEIR"}
    assert [query.id for query in datasets["msmarco"].queries] == ["q1", "q2"], "MS MARCO is judged on dev"
    assert datasets["arguana"].ignores_own_document
    assert not datasets["scifact"].ignores_own_document
    assert datasets["scifact"].language == "en"


def test_collection_of_languages(tmp_path: Path) -> None:
    for language in ("de", "zh"):
        write_beir(tmp_path / "xquad_r" / language)
    datasets = load_datasets([tmp_path / "xquad_r"])
    assert [(dataset.name, dataset.language) for dataset in datasets] == [
        ("xquad_r/de", "de"),
        ("xquad_r/zh", "zh"),
    ]
    assert {dataset.collection for dataset in datasets} == {"xquad_r"}


def test_atlas_keeps_the_language_of_each_query(repository: Path) -> None:
    dataset = load_one(repository / "examples" / "atlas")
    assert len(dataset.queries) == 180
    assert {"en", "ja", "sw"} <= {query.language for query in dataset.queries}
    assert dataset.language == "und"
    assert len(load_one(repository / "examples" / "atlas", "dev").queries) == 180


def test_lotte(tmp_path: Path) -> None:
    for domain in ("pooled", "writing"):
        folder = tmp_path / "lotte" / domain / "test"
        write(folder / "collection.tsv", "0\tFirst passage.\n1\tSecond passage.\n")
        for kind in ("search", "forum"):
            write(folder / f"questions.{kind}.tsv", "0\twhat is first?\n1\tunanswered?\n")
            answered = {"qid": 0, "query": "what is first?", "answer_pids": [0, 1]}
            write(folder / f"qas.{kind}.jsonl", json.dumps(answered) + "\n")
    datasets = load_datasets([tmp_path / "lotte"])
    assert [dataset.name for dataset in datasets] == [
        "lotte/pooled/test/search",
        "lotte/pooled/test/forum",
        "lotte/writing/test/search",
        "lotte/writing/test/forum",
    ]
    dataset = datasets[0]
    assert dataset.judgements == {"0": {"0": 1, "1": 1}}
    assert [(document.id, document.text) for document in dataset.corpus] == [
        ("0", "First passage."),
        ("1", "Second passage."),
    ]
    assert (dataset.metric, dataset.collection, dataset.in_average) == ("Success@5", "LoTTE search", False)
    assert dataset.unjudged_queries == 1


def write_miracl(root: Path, language: str) -> None:
    name = f"miracl-v1.0-{language}"
    write(root / name / "topics" / f"topics.{name}-dev.tsv", "3#0\tKysymys yksi?\n4#0\tei tuomioita\n")
    write(root / name / "qrels" / f"qrels.{name}-dev.tsv", "3#0\tQ0\t7#1\t1\n3#0\tQ0\t7#2\t0\n")
    passage = {"docid": "7#1", "title": "Niili", "text": "Joki."}
    write(root / f"miracl-corpus-v1.0-{language}" / "docs-0.jsonl.gz", json.dumps(passage) + "\n")
    write(
        root / f"miracl-corpus-v1.0-{language}" / "docs-1.jsonl.gz",
        json.dumps({**passage, "docid": "7#2"}) + "\n",
    )


def test_miracl(tmp_path: Path) -> None:
    for language in ("fi", "sw"):
        write_miracl(tmp_path / "miracl", language)
    datasets = load_datasets([tmp_path / "miracl"])
    assert [dataset.name for dataset in datasets] == ["miracl/fi", "miracl/sw"]
    dataset = datasets[0]
    assert dataset.judgements == {"3#0": {"7#1": 1, "7#2": 0}}
    assert [(document.id, document.language) for document in dataset.corpus] == [("7#1", "fi"), ("7#2", "fi")]
    assert (dataset.collection, dataset.unjudged_queries) == ("MIRACL", 1)
    with pytest.raises(InputError, match="no MIRACL topics of split 'train'"):
        load_datasets([tmp_path / "miracl" / "miracl-v1.0-fi"], "train")


PASSAGES = 'id\ttext\ttitle\n1\t"Aaron said ""no"" twice."\tAaron\n2\tPlain text here.\tAlbedo\n'


def test_dpr_questions(tmp_path: Path) -> None:
    write(tmp_path / "dpr" / "psgs_w100.tsv.gz", PASSAGES)
    write(tmp_path / "dpr" / "nq-test.qa.csv", "who said no\t['Aaron', \"Aaron's\"]\n")
    write(tmp_path / "dpr" / "trivia-test.qa.csv.gz", 'what is ""it""\t"[\'a\', \'b ""c""\']"\n')
    write(tmp_path / "dpr" / "nq-dev.qa.csv", "another split\t['x']\n")
    natural, trivia = load_datasets([tmp_path / "dpr"])
    assert natural.name == "nq-test"
    assert natural.queries[0].answers == ("Aaron", "Aaron's")
    assert natural.is_judged_by_answers
    assert natural.metric == "Top-20"
    assert [document.full_text for document in natural.corpus] == [
        'Aaron Aaron said "no" twice.',
        "Albedo Plain text here.",
    ]
    assert trivia.queries[0].answers == ("a", 'b "c"')


def test_entity_questions_group_by_relation(tmp_path: Path) -> None:
    write(tmp_path / "dpr" / "psgs_w100.tsv", PASSAGES)
    for relation in ("P17", "P19"):
        records = [{"question": f"{relation}?", "answers": ["Norway"]}] * 2
        write(tmp_path / "eq" / "dataset" / "test" / f"{relation}.test.json", json.dumps(records))
    write(tmp_path / "eq" / "dataset" / "psgs_w100.tsv", PASSAGES)
    dataset = load_one(tmp_path / "eq")
    assert [(query.id, query.group) for query in dataset.queries] == [
        ("P17-1", "P17"),
        ("P17-2", "P17"),
        ("P19-1", "P19"),
        ("P19-2", "P19"),
    ]


def test_sampling_keeps_order_and_is_repeatable(repository: Path) -> None:
    dataset = load_one(repository / "examples" / "atlas")
    sample = dataset.sample(20, seed=3)
    places = [dataset.queries.index(query) for query in sample.queries]
    assert len(places) == 20
    assert places == sorted(places)
    assert sample.queries == dataset.sample(20, seed=3).queries != dataset.sample(20, seed=4).queries
    assert dataset.sample(0) is dataset


@pytest.mark.parametrize(
    ("name", "language"),
    [("jaquad_ja", "ja"), ("ar", "ar"), ("nq", "und"), ("debian_zh_CN", "zh"), ("beir/scifact", "und")],
)
def test_language_of_name(name: str, language: str) -> None:
    assert language_of_name(name) == language


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which is not one"):
        load_datasets([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="A dataset folder has BEIR's files"):
        load_datasets([tmp_path])
    folder = write_beir(tmp_path / "one")
    with pytest.raises(InputError, match="more than once"):
        load_datasets([folder, folder])
    with pytest.raises(InputError, match=r"choose a split that it has \(test.tsv\)"):
        load_datasets([folder], "dev")
    with pytest.raises(InputError, match="has no judged query"):
        load_datasets([write_beir(tmp_path / "two", judged="other\td1\t1\n")])


def test_bad_lines_are_reported_with_their_place(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "one", judged="q1\td1\t1\nq2\td2\tgood\n")
    with pytest.raises(InputError, match=r"integer grade.*test.tsv, line 3\."):
        load_datasets([folder])
    write_beir(folder, judged="q1 d1\n")
    with pytest.raises(InputError, match=r"3 or 4 columns, not 2.*line 2\."):
        load_datasets([folder])
    write_beir(folder)
    write(folder / "queries.jsonl", '{"_id": "q1", "text": "a"}\n{"_id": "q2"}\n')
    with pytest.raises(InputError, match=r"no text.*line 2\."):
        load_datasets([folder])
