from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from typer.testing import CliRunner

from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.model.vocabulary import train_vocabulary


def parse(path) -> sentencepiece_model_pb2.ModelProto:
    return sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())


def test_the_same_texts_give_the_same_file(atlas_texts, tmp_path):
    for name in ("a.model", "b.model"):
        train_vocabulary(atlas_texts[:60], 1000, tmp_path / name)
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()


def test_special_ids_are_those_of_t5(atlas_model):
    processor = sentencepiece.SentencePieceProcessor(model_file=atlas_model)
    assert (processor.pad_id(), processor.eos_id(), processor.unk_id(), processor.bos_id()) == (0, 1, 2, -1)
    assert processor.get_piece_size() == 4000


@pytest.mark.shared_data
def test_settings_that_shape_ids_are_those_of_the_real_mt5(atlas_model, shared_data):
    ours, theirs = map(parse, (Path(atlas_model), shared_data / "vocab" / "mt5.spiece.model"))
    for name in ("name", "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        assert getattr(ours.normalizer_spec, name) == getattr(theirs.normalizer_spec, name), name
    special = ("pad_id", "eos_id", "unk_id", "bos_id", "pad_piece", "eos_piece", "unk_piece")
    for name in ("model_type", "byte_fallback", *special):
        assert getattr(ours.trainer_spec, name) == getattr(theirs.trainer_spec, name), name


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_is_unknown(atlas_model, text):
    processor = sentencepiece.SentencePieceProcessor(model_file=atlas_model)
    assert processor.unk_id() not in processor.encode(text)


def test_texts_are_lowercased_by_default(atlas_texts, tmp_path):
    for lowercase in (True, False):
        path = tmp_path / f"{lowercase}.model"
        train_vocabulary(atlas_texts[:20], 800, path, lowercase)
        pieces = "".join(piece.piece for piece in parse(path).pieces if piece.type == 1)
        assert pieces.islower() == lowercase


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [
        ([], 1000, "no text .* Received: 0 lines"),
        (["  ", "\n"], 1000, "no text .* Received: 0 lines"),
        (["one line"], 1000, r"at most 26\d pieces.* Received: 1000"),
        (["one line"], 100, r"at least 26\d pieces.* Received: 100"),
        (["half a pair \ud800"], 1000, r"at most 26\d pieces.* Received: 1000"),
    ],
)
def test_texts_that_do_not_fit_the_size_are_explained_and_leave_nothing(tmp_path, texts, size, message):
    with pytest.raises(InputError, match=message):
        train_vocabulary(texts, size, tmp_path / "out.model")
    assert list(tmp_path.iterdir()) == []


def test_long_lines_are_learned_from(atlas_texts, tmp_path):
    line = " ".join(atlas_texts[:20]) + " zyzzyva" * 3
    assert len(line) > 5000
    train_vocabulary([line], 800, tmp_path / "long.model")
    assert any("zyz" in piece.piece for piece in parse(tmp_path / "long.model").pieces)


def test_command_trains_on_folders_and_on_pairs_without_ids(repository, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        json.dumps({"query": "what is a quokka?", "title": "Quokka", "text": "A small macropod."})
    )
    out = tmp_path / "new" / "atlas.model"
    arguments = ["tokenizer", "train", str(repository / "examples" / "atlas"), str(pairs)]
    result = CliRunner().invoke(app, [*arguments, "--vocabulary-size", "3000", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "3000 pieces from" in result.output
    assert len(parse(out).pieces) == 3000


def test_training_needs_no_tensorflow():
    code = "import sys, xtr_tf.model.vocabulary; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
