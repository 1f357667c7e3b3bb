"""Questions for sentences, and vectors of words that are made of n-grams."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.collections.document import Document


@pytest.fixture(scope="module")
def sentences(mxtr_module):
    return mxtr_module("sentences")


def test_short_parts_belong_to_the_sentence_before(sentences):
    passage = "The lake is the deepest one in the world. Really! It holds a fifth of all fresh water."
    first, second = (
        "The lake is the deepest one in the world. Really!",
        "It holds a fifth of all fresh water.",
    )
    assert sentences.split(passage) == [first, second]


def test_every_passage_is_asked_about_before_any_a_second_time(sentences):
    lake = "The lake is deep and very cold. It lies in the south of Siberia."
    river = "The river flows north through eleven countries."
    rows = [
        {"query": "how deep", "text": lake},
        {"query": "where", "text": lake},
        {"query": "which way", "text": river},
        {"query": "left out", "text": "A passage too many."},
    ]
    own = sentences.questions_of(rows, passages=2, queries=2)
    assert [document.text for document in own.documents] == [*sentences.split(lake), river]
    assert own.texts == ["how deep", "which way"]
    assert own.answers == [[0, 1], [2]]
    assert sentences.questions_of(rows, passages=2, queries=9).texts == ["how deep", "which way", "where"]


def test_the_best_answer_counts(sentences):
    found = np.float32([[3, 2, 1], [3, 2, 1], [-np.inf, 2, 1]])
    assert sentences.gain(found[:1], [[0, 2]]) == 100
    assert sentences.gain(found[1:2], [[1, 2]]) == pytest.approx(100 / np.log2(3))
    assert sentences.gain(found[2:], [[0]]) == 0


def test_words_are_found_by_their_forms_without_training(sentences):
    texts = ["kitaplar masanın üstünde duruyor", "deniz bugün çok dalgalı", "dalgakıran limanı korur"]
    documents = [Document(str(number), text=text) for number, text in enumerate(texts)]
    own = sentences.Questions(documents, ["denizin dalgaları", "kitap nerede"], [[1], [0]])
    found = sentences.scores(*sentences.spelled(own))
    assert found.argmax(axis=1).tolist() == [1, 0]
    assert sentences.gain(found, own.answers) == 100


def test_standardised_scores_can_be_added(sentences):
    values = sentences.standard(np.float32([[1, 2, 3], [10, -np.inf, 30]]))
    np.testing.assert_allclose(values.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(values.std(axis=1), 1, rtol=1e-6)
    assert np.isfinite(values).all()
