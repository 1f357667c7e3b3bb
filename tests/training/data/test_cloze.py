"""The inverse cloze task: sentences as queries for the passages they were taken from."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.cloze import ClozeSource, sentences
from xtr_tf.training.data.sampling import TrainingData
from xtr_tf.training.losses.objectives import false_negatives


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Nile is 6,650.5 km long. It flows north!", ["The Nile is 6,650.5 km long.", "It flows north!"]),
        ("東京は首都です。人口は？多い。", ["東京は首都です。", "人口は？", "多い。"]),
        ("नील लंबी है। यह उत्तर बहती है।", ["नील लंबी है।", "यह उत्तर बहती है।"]),
        ("ما طوله؟ طويل.", ["ما طوله؟", "طويل."]),
        ("  no end ", ["no end"]),
        ("", []),
    ],
)
def test_sentences_end_at_the_punctuation_of_any_language(text, expected):
    assert sentences(text) == expected


def write_corpus(path, texts):
    records = [
        {"_id": f"d{i}", "title": f"T{i}", "text": text, "language": "en"} for i, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return SourceConfig(path=str(path), format="cloze")


def test_each_sentence_is_a_query_for_its_passage_without_it(tmp_path):
    texts = [f"First sentence {i}. Short. Third sentence {i}! Third sentence {i}!" for i in range(12)]
    source = ClozeSource(
        write_corpus(tmp_path / "corpus.jsonl", [*texts, "One sentence only, however long it is."])
    )
    assert len(source) == 36
    assert set(source.languages) == {"en"}
    kept = 0
    for index in range(len(source)):
        example = source[index]
        number, place = divmod(index, 3)
        third = f"Third sentence {number}!"
        assert example.query == [f"First sentence {number}.", third, third][place]
        (passage,) = example.positives
        assert (passage.id, passage.title) == (f"d{number}", f"T{number}")
        if passage.text == texts[number]:
            kept += 1
        else:
            expected = [f"Short. {third} {third}", *2 * [f"First sentence {number}. Short. {third}"]][place]
            assert passage.text == expected
    assert kept == 4


def test_sentences_of_one_passage_are_not_negatives_of_each_other(tmp_path):
    config = write_corpus(tmp_path / "corpus.jsonl", [f"A sentence {i}. Another one, {i}." for i in range(4)])
    data = TrainingData(DataConfig(train=(config,)), seed=0)
    assert len(data) == 8
    batch = data.batch(0, 8)
    marked = false_negatives(batch.positive_keys, batch.document_keys, tf.range(8)).numpy()
    np.testing.assert_array_equal(marked.sum(axis=1), np.ones(8))


def test_a_corpus_of_single_sentences_is_refused(tmp_path):
    config = write_corpus(tmp_path / "corpus.jsonl", ["Only one sentence here."])
    with pytest.raises(InputError, match=r"two sentences or more\. Received: .*corpus\.jsonl"):
        ClozeSource(config)
