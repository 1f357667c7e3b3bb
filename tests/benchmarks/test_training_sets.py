"""The training sets of the multilingual model: nothing held out is trained on, every pair is what it says."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def training_sets(benchmark_module):
    return benchmark_module("mxtr", "training_sets")


def test_a_set_has_negatives_and_its_held_out_passages_are_a_development_set(training_sets, tmp_path):
    rows = [
        {"query": f"where is {name}?", "text": f"{name} is a lake of {name} county."}
        for name in (f"lake{number}" for number in range(60))
    ]
    path = tmp_path / "lakes_en.jsonl"
    training_sets.write(path, rows)
    own = training_sets.QuestionSet("lakes_en", 30)
    found = training_sets.read(training_sets.mined(path, tmp_path / "out", own))
    held_out = {row["text"] for row in rows if training_sets.is_held_out(row["text"])}
    assert held_out
    trained = {document["text"] for row in found for document in row["positives"] + row["negatives"]}
    assert not trained & held_out
    assert 0 < len(found) <= 30
    assert {row["language"] for row in found} == {"lakes_en"}
    for row in found:
        assert row["negatives"]
        assert row["positives"][0] not in row["negatives"]

    folder = tmp_path / "out" / "dev" / "lakes_en"
    texts = {row["_id"]: row["text"] for row in training_sets.read(folder / "corpus.jsonl")}
    queries = {row["_id"]: row["text"] for row in training_sets.read(folder / "queries.jsonl")}
    header, *judged = (folder / "qrels" / "test.tsv").read_text().splitlines()
    assert header == "query-id\tcorpus-id\tscore"
    answers = {queries[q]: texts[d] for q, d, _ in (line.split("\t") for line in judged)}
    assert answers == {row["query"]: row["text"] for row in rows if row["text"] in held_out}


def test_translations_go_both_ways_and_are_never_the_same_pair_twice(training_sets, tmp_path):
    pairs = [{"en": f"a sentence of number {n}", "text": f"ein Satz der Nummer {n}"} for n in range(21)]
    training_sets.write(tmp_path / "parallel" / "books_de.jsonl", [*pairs, {"en": "short", "text": "kurz"}])
    there, back = training_sets.translations(tmp_path / "parallel", tmp_path / "out")
    assert (there.stem, back.stem) == ("de-en", "en-de")
    german = {row["query"]: row["positives"] for row in training_sets.read(there)}
    english = {row["query"]: row["positives"] for row in training_sets.read(back)}
    assert len(german) == len(english) == 10
    by_german = {pair["text"]: pair["en"] for pair in pairs}
    assert all(answer == [by_german[query]] for query, answer in german.items())
    assert all(by_german[answer[0]] == query for query, answer in english.items())
    assert not {answer[0] for answer in german.values()} & english.keys()
