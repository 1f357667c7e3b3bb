"""What a teacher's knowledge becomes: shares of translations, a store that training reads, a larger start."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.data.teacher_vectors import TeacherVectors


@pytest.fixture(scope="module")
def taught_store(mxtr_module):
    return mxtr_module("taught_store")


def test_a_token_shares_itself_out_among_its_translations(taught_store, mxtr_module):
    """4 stands for 11 and 12, 5 for 12 or nothing; no sentence had 6."""
    known = mxtr_module("translations").Translations(
        foreign=np.int32([4, 4, 5, 5]),
        english=np.int32([11, 12, 0, 12]),
        probability=np.float32([0.7, 0.3, 0.6, 0.4]),
        count=np.zeros(20, np.float32),
    )
    shares = taught_store.Table(known, pieces=20).shares(np.array([4, 6, 5]), np.array([12, 13, 11]))
    uncertain = taught_store.UNCERTAIN
    expected = [
        [0.3 / (1 + uncertain), 0, 0.7 / (1 + uncertain)],
        [0, 0, 0],
        [0.4 / (0.4 + uncertain), 0, 0],
    ]
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


def test_directions_of_the_teacher_keep_their_angles(taught_store, tmp_path):
    """Vectors in eight dimensions around a mean, projected to eight: only the mean is gone."""
    random = np.random.default_rng(0)
    mean = random.normal(size=16)
    vectors = mean + random.normal(size=[400, 8]) @ np.eye(8, 16)
    tokens = [
        taught_store.Tokens(np.arange(4), np.int32([[0, 1], [1, 2], [2, 3], [3, 4]]), own)
        for own in np.split(vectors, 100)
    ]
    texts = [taught_store.TaughtText("abcd", "en", own.spans, own.vectors) for own in tokens]
    taught_store.write_store(tmp_path, texts)
    assert len(TeacherVectors(tmp_path)) == 100
    teacher = taught_store.Teacher(tmp_path, dim=8)
    found = np.concatenate([teacher.meaning(number, own) for number, own in enumerate(tokens)])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    # The mean of vectors of unit length is not quite the mean in the other eight dimensions.
    assert np.corrcoef((found @ found.T).ravel(), (centred @ centred.T).ravel())[0, 1] > 0.99


def test_a_larger_start_computes_almost_the_same(mxtr_module):
    sizes = {"vocabulary_size": 50, "model_dim": 32, "num_heads": 2, "head_dim": 16, "feed_forward": "relu"}
    small = Encoder(EncoderConfig(**sizes, feed_forward_dim=64, num_layers=2, dropout=0.0), seed=1)
    large = Encoder(EncoderConfig(**sizes, feed_forward_dim=128, num_layers=3, dropout=0.0), seed=2)
    grown = mxtr_module("grown_start").grown(small.get_canonical_weights(), large.get_canonical_weights())
    large.set_canonical_weights(grown)
    ids = tf.constant([[7, 8, 9, 10, 1, 0]])
    cosines = tf.reduce_sum(small(ids) * large(ids), axis=-1)[0, :5]
    assert cosines.numpy().min() > 0.99
    # The new weights take part, so that training can change them.
    assert cosines.numpy().max() < 0.999999


def test_all_tokens_of_a_dictionarys_word_mean_its_translations(taught_store):
    """A token may begin with the space before a word; the comma and the end keep their vectors."""

    class Student:
        """Knows the tokens of one text."""

        def tokens(self, texts):
            assert texts == ["lago, mar hondo"]
            spans = np.int32([[0, 2], [2, 4], [4, 5], [5, 9], [9, 12], [12, 15], [0, 0]])
            return [taught_store.Tokens(np.arange(7), spans, np.ones([7, 2]))]

    words = [
        taught_store.Word("lago", np.array([1.0, 0])),
        taught_store.Word("mar hondo", np.array([0, 1.0])),
    ]
    (taught,) = taught_store.taught_words(Student(), words, "es")
    assert (taught.text, taught.language) == ("lago, mar hondo", "es")
    side = np.sqrt(0.5)
    lake, sea = np.array([side + taught_store.WEIGHT, side]), np.array([side, side + taught_store.WEIGHT])
    expected = [lake, lake, [side, side], sea, sea, sea, [side, side]]
    expected = np.array([row / np.linalg.norm(row) for row in expected])
    np.testing.assert_allclose(taught.targets, expected, atol=1e-3)


def test_passages_keep_every_token_and_its_target(taught_store):
    """A token's target says which word of which text it is."""
    texts, targets = [], {}
    for language, count in (("en", 60), ("es", 30)):
        for number in range(count):
            words = [f"{language}{number}w{place}" for place in range(1 + number % 7)]
            limits = np.cumsum([len(word) + 1 for word in words]) - 1
            spans = np.stack([limits - [len(word) for word in words], limits], axis=1)
            own = np.random.default_rng([number, count]).normal(size=[len(words), 4])
            targets |= zip(words, own, strict=True)
            end = np.zeros([1, 2], int)  # a token without characters
            text = taught_store.TaughtText(" ".join(words), language, np.r_[spans, end], np.r_[own, own[:1]])
            texts.append(text)
    passages = taught_store.in_passages(texts)
    found = {}
    for passage in passages:
        for (start, limit), target in zip(passage.spans, passage.targets, strict=True):
            if limit > start:
                word = passage.text[start:limit]
                assert word.startswith(passage.language)
                found[word] = target
    assert found.keys() == targets.keys()
    assert all((found[word] == targets[word]).all() for word in targets)
    assert len(passages) < 60
    assert max(len(passage.spans) for passage in passages) <= taught_store.PASSAGE
