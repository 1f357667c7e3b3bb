"""How words of many languages are taught: where and how they are written, and a start that knows pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from xtr_tf.config.model import EncoderConfig, TokenizerConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.tokenizer import Tokenizer
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
    known = Encoder(config, seed=0)
    directions = unit(np.random.default_rng(0).standard_normal((40, 16)))
    ids = np.arange(1, 40, dtype=np.int32).reshape(3, 13)
    targets = unit(known(ids).numpy() + directions[ids])

    def closeness(encoder):
        return float((encoder(ids).numpy() * targets).sum(axis=-1).mean())

    embeddings = known.get_canonical_weights()["token_embedder/embedding"]
    started = mxtr_module("word_start").with_meanings(known, embeddings, directions, closeness)
    assert closeness(started) > closeness(known) + 0.05


def vocabulary_of(pieces):
    """A SentencePiece model of the given pieces, all equally likely."""
    model = ModelProto()
    for name, kind in (("<pad>", "CONTROL"), ("</s>", "CONTROL"), ("<unk>", "UNKNOWN")):
        model.pieces.add(piece=name, type=ModelProto.SentencePiece.Type.Value(kind))
    for name in pieces:
        model.pieces.add(piece=name, score=-1.0)
    model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
    model.trainer_spec.pad_id, model.trainer_spec.eos_id, model.trainer_spec.unk_id = 0, 1, 2
    model.trainer_spec.bos_id = -1
    return model.SerializeToString()


def test_pieces_that_are_new_get_the_embeddings_of_their_parts(mxtr_module):
    old = vocabulary_of(["▁", "▁wasser", "wasser", "fall", "▁fall", "s"])
    new = vocabulary_of(["▁wasserfall", "▁wasser", "falls", "▁"])
    table = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    place = {"pad": 0, "end": 1, "unknown": 2, "▁": 3, "▁wasser": 4, "fall": 6, "s": 8}
    expected = [
        table[[place[name] for name in parts]].mean(axis=0)
        for parts in (["pad"], ["end"], ["unknown"], ["▁wasser", "fall"], ["▁wasser"], ["fall", "s"], ["▁"])
    ]
    found = mxtr_module("word_start").embeddings_of(new, old, table)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_forms_of_a_word_are_spelt_alike(mxtr_module):
    lists = [{"language": "de", "words": ["der", "schlossturm", "turm"], "frequencies": [0.5, 0.01, 0.02]}]
    spelling = mxtr_module("spelling").Spelling(lists, 128)
    tokens = spelling.tokens("Schlosstürme: der Turm, 東大寺")
    assert tokens.spans.tolist() == [[0, 12], [14, 17], [18, 22], [24, 27]]
    towers, _, tower, temple = tokens.vectors.astype(np.float32)
    assert towers @ spelling.vector("schlosstürmen").astype(np.float32) > 0.8
    assert abs(towers @ tower) < 0.5
    assert not temple.any()
    assert spelling.tokens("…").vectors.shape == (0, 128)


def test_common_endings_count_less_than_rare_stems(mxtr_module):
    words = [f"{stem}lichkeit" for stem in ("herr", "end", "ehr", "sterb", "münd", "öffent")]
    lists = [{"language": "de", "words": words, "frequencies": [0.05] * len(words)}]
    same_ending, same_stem = (
        spelling.vector("xanterlichkeit").astype(np.float32) @ spelling.vector(other).astype(np.float32)
        for spelling in [mxtr_module("spelling").Spelling(lists, 128)]
        for other in ("pulvumlichkeit", "xanterungen")
    )
    assert same_stem > same_ending


@pytest.mark.parametrize(("language", "space"), [("de", " "), ("ja", "")])
def test_lines_have_every_word_and_frequent_ones_more_often(mxtr_module, monkeypatch, language, space):
    vocabulary = mxtr_module("vocabulary")
    monkeypatch.setattr(vocabulary, "DRAWN", 100)
    lines = list(vocabulary.lines_of(language, ["山", "川", "海"], [0.9, 0.1, 0.0]))
    text = space.join(lines)
    assert len(lines) == 6  # 103 words, 20 in a line
    assert text.count("山") > text.count("川") > text.count("海") == 1


def test_a_share_of_turkish_words_has_the_dot_of_a_capital(mxtr_module):
    lines = " ".join(mxtr_module("vocabulary").lines_of("tr", ["ilk", "son"], [0.5, 0.5])).split()
    assert set(lines) == {"ilk", "son", "İlk".lower()}


def test_the_background_counts_texts_with_a_piece(mxtr_module):
    tokenizer = Tokenizer(TokenizerConfig(), vocabulary_of(["▁", "▁wasser", "▁fall"]))
    texts = ["wasser wasser", "fall", "Wasser"]
    shares = mxtr_module("vocabulary").background(texts, tokenizer, at_once=2)
    np.testing.assert_allclose(shares, [0, 1, 0, 0, 2 / 3, 1 / 3], rtol=1e-6)
