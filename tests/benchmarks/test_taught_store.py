"""What a teacher's knowledge becomes: shares of translations, a store that training reads, a larger start."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.data.teacher_vectors import TeacherVectors


@pytest.fixture(scope="module")
def mxtr_module(repository):
    """Imports a module of `benchmarks/mxtr`, which import each other by the names of their files."""

    def load(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(repository / "benchmarks" / "mxtr")
            return importlib.import_module(name)

    return load


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
