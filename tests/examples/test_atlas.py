"""The embedded corpus matches its README."""

from __future__ import annotations

import collections
import csv
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def atlas(repository: Path) -> Path:
    return repository / "examples" / "atlas"


def read_jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def read_qrels(file: Path) -> list[tuple[str, str, int]]:
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    return [(row["query-id"], row["corpus-id"], int(row["score"])) for row in rows]


@pytest.fixture(scope="module")
def passages(atlas: Path) -> dict[str, dict[str, Any]]:
    rows = read_jsonl(atlas / "corpus.jsonl")
    assert len({row["_id"] for row in rows}) == len(rows)
    return {row["_id"]: row for row in rows}


@pytest.fixture(scope="module")
def questions(atlas: Path) -> dict[str, dict[str, Any]]:
    rows = read_jsonl(atlas / "queries.jsonl")
    assert len({row["_id"] for row in rows}) == len(rows)
    return {row["_id"]: row for row in rows}


def test_counts_of_the_readme(passages: dict, questions: dict) -> None:
    per_language = collections.Counter(row["language"] for row in passages.values())
    assert len(passages) == 300
    assert len(questions) == 900
    sizes = {60: ["en"], 28: ["de", "sw"], 27: ["es", "ja"], 26: ["fr", "ru", "ar", "hi", "zh"]}
    assert per_language == {language: size for size, group in sizes.items() for language in group}
    assert len({row["topic"] for row in passages.values()}) == 60


def test_five_scripts_or_more(passages: dict) -> None:
    letters = "".join(row["text"] for row in passages.values())
    scripts = collections.Counter(
        unicodedata.name(char, "").split(" ")[0] for char in letters if char.isalpha()
    )
    common = {script for script, count in scripts.items() if count > 500}
    assert common >= {"LATIN", "CYRILLIC", "ARABIC", "DEVANAGARI", "CJK", "HIRAGANA", "KATAKANA"}


def test_passages_are_short_unique_prose(passages: dict) -> None:
    texts = [row["text"] for row in passages.values()]
    assert len(set(texts)) == len(texts)
    for row in passages.values():
        assert row["title"]
        assert row["text"] == " ".join(row["text"].split())
        assert 80 <= len(row["text"]) <= 800, row["_id"]


def test_questions_are_unique_and_belong_to_a_passage_of_their_language(
    passages: dict, questions: dict
) -> None:
    texts = [row["text"] for row in questions.values()]
    assert len(set(texts)) == len(texts)
    assert all(row["text"].strip() for row in questions.values())
    told = {(row["language"], row["topic"]) for row in passages.values()}
    assert {(row["language"], row["topic"]) for row in questions.values()} <= told


def test_judgements_resolve_and_cover_every_question_once(
    atlas: Path, passages: dict, questions: dict
) -> None:
    judged: list[str] = []
    for split in SPLITS:
        for query_id, passage_id, score in read_qrels(atlas / "qrels" / f"{split}.tsv"):
            question, passage = questions[query_id], passages[passage_id]
            assert score == 1
            assert (question["language"], question["topic"]) == (passage["language"], passage["topic"])
            judged.append(query_id)
    assert sorted(judged) == sorted(questions)


def test_no_topic_is_in_two_splits_and_every_language_in_each(atlas: Path, questions: dict) -> None:
    topics, languages = {}, {}
    for split in SPLITS:
        rows = [questions[query_id] for query_id, _, _ in read_qrels(atlas / "qrels" / f"{split}.tsv")]
        topics[split] = {row["topic"] for row in rows}
        languages[split] = {row["language"] for row in rows}
    assert sum(len(group) for group in topics.values()) == len(set().union(*topics.values()))
    assert {split: len(group) for split, group in topics.items()} == {"train": 36, "dev": 12, "test": 12}
    assert all(len(group) == 10 for group in languages.values())
