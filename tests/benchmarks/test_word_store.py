"""How words of many languages are taught: where a text's words are, and a start that knows single pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.data.teacher_vectors import TeacherVectors, unit


class Piece(NamedTuple):
    piece: str
    begin: int
    end: int


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        pytest.param("▁Ober fläche , ▁de s", ["Oberfläche", "des"], id="spaces"),
        pytest.param("▁国王 在 河流 。", ["国王", "在", "河流"], id="no spaces"),
        pytest.param("▁wi - fi ▁( 7 )", ["wi", "fi", "7"], id="punctuation"),
        pytest.param("▁2016 年 ▁USB 端口", ["2016", "年", "USB", "端口"], id="mixed"),
    ],
)
def test_words_are_where_their_pieces_are(mxtr_module, pieces, words):
    names, text = pieces.split(" "), pieces.replace(" ", "").replace("▁", " ")
    ends = np.cumsum([len(name) for name in names])
    given = [Piece(name, end - len(name), end) for name, end in zip(names, ends, strict=True)]
    found = mxtr_module("word_states").words_of(given)
    assert [word.text for word in found] == words
    assert [text[word.start : word.limit].strip() for word in found] == words


def test_the_teachers_store_can_be_read(mxtr_module, tmp_path):
    states = mxtr_module("word_states")
    rows = [
        {"text": "deep lake", "language": "en"},
        {"text": "…", "language": "en"},
        {"text": "lake", "language": "en"},
    ]
    words = [[states.Word(0, 4, "deep"), states.Word(5, 9, "lake")], [], [states.Word(0, 4, "lake")]]
    vectors = states.int8(np.float32([[0.3, -0.4], [0.1, 0.0]]))
    states.write_store(tmp_path, rows, words, {"deep": 0, "lake": 1}, vectors)
    store = TeacherVectors(tmp_path)
    assert [store.text(number) for number in range(3)] == ["deep lake", "…", "lake"]
    assert store.tokens(0).vectors.tolist() == [[95, -127], [127, 0]]
    assert len(store.tokens(1).spans) == 0
    assert store.tokens(2).vectors.tolist() == [[127, 0]]


def test_the_mean_meaning_of_a_piece(mxtr_module):
    mean = mxtr_module("word_store").PieceMeanings(pieces=4, dim=2)
    mean.add(np.array([1, 2, 1]), np.float32([[1, 0], [0, 1], [0, 1]]))
    mean.add(np.array([1]), np.float32([[0, 0]]))
    np.testing.assert_allclose(mean.value(), [[0, 0], [1 / 3, 1 / 3], [0, 1], [0, 0]], rtol=1e-6)


def test_a_start_knows_what_pieces_mean(mxtr_module):
    """Targets are vectors of a random encoder plus directions of pieces."""
    sizes = {"model_dim": 32, "feed_forward_dim": 32, "num_layers": 1, "num_heads": 2, "head_dim": 16}
    config = EncoderConfig(vocabulary_size=40, **sizes, projection_dim=16, embedding_dim=16, dropout=0.0)
    small = Encoder(config, seed=0)
    directions = unit(np.random.default_rng(0).standard_normal((40, 16)))
    ids = np.arange(1, 40, dtype=np.int32).reshape(3, 13)
    targets = unit(small(ids).numpy() + directions[ids])

    def closeness(encoder):
        return float((encoder(ids).numpy() * targets).sum(axis=-1).mean())

    large = mxtr_module("word_start").with_meanings(small, directions, closeness)
    assert large.config.embedding_dim == 32
    assert closeness(large) > closeness(small) + 0.05
