"""What could make the encoder better: arms that differ in one thing, and texts in two languages."""

from __future__ import annotations

import copy
import random
from types import ModuleType

import numpy as np
import pytest
import yaml
from sentencepiece import SentencePieceProcessor

from xtr_tf.config.loading import from_mapping
from xtr_tf.config.training import RunConfig


@pytest.fixture(scope="module")
def levers(mxtr_module) -> ModuleType:
    return mxtr_module("levers")


@pytest.fixture(scope="module")
def mixed_sets(mxtr_module) -> ModuleType:
    return mxtr_module("mixed_sets")


def test_every_arm_is_a_valid_run_that_differs_in_its_lever(levers, repository):
    settings = yaml.safe_load((repository / "benchmarks" / "mxtr" / "mxtr.yaml").read_text("utf-8"))
    settings["data"]["train"] = [{"path": "fairytaleqa_en.jsonl", "language": "en"}]
    changed = {}
    for name, change in levers.ARMS.items():
        own = copy.deepcopy(settings)
        change(own)
        from_mapping(RunConfig, own)
        changed[name] = {section for section in own if own[section] != settings[section]}
    assert changed["control"] == set()
    assert changed["other_seed"] == changed["large_batch"] == {"training"}
    assert changed["xtr_loss"] == changed["served_loss"] == {"loss"}


def test_an_arm_uses_the_files_that_another_folder_has(levers, tmp_path):
    (tmp_path / "a.jsonl").touch()
    settings = {"data": {"train": [{"path": "sets/a.jsonl"}, {"path": "sets/b.jsonl"}]}}
    levers.replace_files(settings, tmp_path)
    assert [own["path"] for own in settings["data"]["train"]] == [str(tmp_path / "a.jsonl"), "sets/b.jsonl"]


def test_a_document_without_any_of_the_questions_n_grams_is_not_found(levers):
    document = levers.Document
    found = levers.bm25(levers.Questions([document("0", "Baikal"), document("1", "Nile")], ["nile"], [[1]]))
    assert found[0, 0] == -np.inf
    assert found[0, 1] > 0


def test_words_stand_for_those_they_occur_with(mixed_sets, repository):
    pieces = SentencePieceProcessor(model_file=str(repository / "models/mxtr_tiny/tokenizer.model"))
    pairs = [
        {"en": "A deep lake", "text": "Ein tiefer See"},
        {"en": "A cold lake", "text": "Ein kalter See"},
        {"en": "A deep well", "text": "Ein tiefer Brunnen"},
        {"en": "A cold night", "text": "Ein kalter Abend"},
    ]
    table = mixed_sets.words_for(pairs, "de", pieces)
    best = {word: words[int(np.argmax(weights))] for word, (words, weights) in table.items()}
    assert best == {"deep": "tiefer", "lake": "see", "cold": "kalter"}  # the others were seen once


def test_only_words_with_a_translation_are_replaced(mixed_sets, monkeypatch):
    monkeypatch.setattr(mixed_sets, "REPLACED", 1.0)
    row = {"query": "How deep is Baikal?", "positives": [{"text": "It is deep."}], "negatives": []}
    table = {"deep": (["tief"], [1.0])}
    found = [mixed_sets.mixed(row, kind, table, "mixed-de", random.Random(0)) for kind in range(3)]
    assert [own["query"] for own in found] == [
        "How tief is Baikal?",
        "How deep is Baikal?",
        "How tief is Baikal?",
    ]
    assert [own["positives"][0]["text"] for own in found] == ["It is deep.", "It is tief.", "It is tief."]
    assert row["positives"] == [{"text": "It is deep."}]
