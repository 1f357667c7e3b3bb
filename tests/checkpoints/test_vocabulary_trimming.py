"""A trimmed vocabulary segments its corpus as before, and the trimmed encoder gives the same vectors."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.model.folder import load_encoder
from xtr_tf.model.vocabulary import (
    SentencePieceModel,
    TrimmedVocabulary,
    corpus_texts,
    keep_best_pieces,
    trim_vocabulary,
)


def assert_same_segmentation(model: SentencePieceModel, trimmed: TrimmedVocabulary, texts: list[str]) -> None:
    before = sentencepiece.SentencePieceProcessor(model_proto=model.content)
    after = sentencepiece.SentencePieceProcessor(model_proto=trimmed.model)
    for text in texts:
        new_ids = after.encode(text)
        assert trimmed.rows[new_ids].tolist() == before.encode(text)
        assert after.encode(text, out_type=str) == before.encode(text, out_type=str)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_corpus_is_segmented_as_before(atlas: Path, atlas_vocabulary: Path, lowercase: bool) -> None:
    model = SentencePieceModel.read(atlas_vocabulary)
    texts = [text.lower() if lowercase else text for text in corpus_texts(atlas)][:120]
    trimmed = trim_vocabulary(model, texts, lowercase=lowercase)
    assert len(trimmed.rows) < 2700
    assert_same_segmentation(model, trimmed, texts)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_text_is_segmented_as_before(atlas_vocabulary: Path, texts: list[str]) -> None:
    model = SentencePieceModel.read(atlas_vocabulary)
    texts = [text.replace("\ud800", "") for text in texts]
    if not any(model.processor.encode(texts)):
        return
    assert_same_segmentation(model, trim_vocabulary(model, texts, lowercase=False), texts)


def test_unknown_characters_stay_as_unlikely_as_they_were() -> None:
    """Without the lowest-scored piece, an unknown character would win: xy + unknown at -42, not -72."""
    model = sentencepiece_model({"▁": -2, "x": -30, "y☃": -30, "xy": -2, "lowest": -60})
    texts = ["xy☃ xy"]
    trimmed = trim_vocabulary(model, texts, lowercase=False)
    processor = sentencepiece.SentencePieceProcessor(model_proto=trimmed.model)
    assert processor.encode("xy☃ xy", out_type=str) == ["▁", "x", "y☃", "▁", "xy"]
    assert_same_segmentation(model, trimmed, texts)


def test_other_words_in_the_same_letters_stay_known() -> None:
    model = sentencepiece_model({"▁": -1, "▁corpus": -5, **dict.fromkeys("corpusz", -9)})
    trimmed = trim_vocabulary(model, ["corpus"], lowercase=False)
    processor = sentencepiece.SentencePieceProcessor(model_proto=trimmed.model)
    assert processor.unk_id() not in processor.encode("cross soup")
    assert processor.unk_id() in processor.encode("z")


def sentencepiece_model(scores: dict[str, float]) -> SentencePieceModel:
    """A unigram model of T5's kind with these pieces."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    kinds = proto.SentencePiece
    for piece, kind in (("<pad>", kinds.CONTROL), ("</s>", kinds.CONTROL), ("<unk>", kinds.UNKNOWN)):
        proto.pieces.add(piece=piece, score=0, type=kind)
    for piece, score in scores.items():
        proto.pieces.add(piece=piece, score=score, type=kinds.NORMAL)
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    proto.trainer_spec.unk_id, proto.trainer_spec.eos_id, proto.trainer_spec.pad_id = 2, 1, 0
    proto.trainer_spec.bos_id = -1
    proto.normalizer_spec.name = "identity"
    return SentencePieceModel(proto.SerializeToString(), "test")


def test_special_pieces_and_their_ids_stay(atlas_vocabulary: Path) -> None:
    model = SentencePieceModel.read(atlas_vocabulary)
    trimmed = trim_vocabulary(model, ["Everest"], lowercase=False)
    processor = sentencepiece.SentencePieceProcessor(model_proto=trimmed.model)
    assert (processor.pad_id(), processor.eos_id(), processor.unk_id()) == (0, 1, 2)
    assert trimmed.rows[:259].tolist() == list(range(259))
    assert sum(processor.is_byte(index) for index in range(processor.get_piece_size())) == 256
    assert processor.get_piece_size() == len(trimmed.rows) < 280
    assert (np.diff(trimmed.rows) > 0).all()


def test_other_models_and_empty_corpora_are_refused(atlas: Path, tmp_path: Path) -> None:
    with (tmp_path / "bpe.model").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(list(corpus_texts(atlas))[:40]),
            model_writer=writer,
            vocab_size=600,
            model_type="bpe",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    with pytest.raises(InputError, match="Only unigram"):
        trim_vocabulary(SentencePieceModel.read(tmp_path / "bpe.model"), ["a"], lowercase=False)
    with pytest.raises(InputError, match="must have texts"):
        trim_vocabulary(sentencepiece_model({"a": -1}), [], lowercase=False)


def test_the_best_pieces_are_kept_and_every_character() -> None:
    scores = {"▁": -1, "▁Corpus": -2, "▁corpus": -3, "▁rare": -8, "z": -9, "Z": -9, "▁worst": -10}
    model = sentencepiece_model(scores)
    lowercase = pieces_of(keep_best_pieces(model, 2, lowercase=True))
    # The worst one stays: SentencePiece scores unknown characters below it.
    assert lowercase == ["▁", "▁corpus", "z", "▁worst"]
    assert pieces_of(keep_best_pieces(model, 2, lowercase=False)) == ["▁", "▁Corpus", "z", "Z", "▁worst"]
    for count in (0, 6):
        with pytest.raises(InputError, match=f"Keep between 1 and 5 pieces. Received: {count}."):
            keep_best_pieces(model, count, lowercase=True)


def pieces_of(trimmed: TrimmedVocabulary) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=trimmed.model)
    return [processor.id_to_piece(index) for index in range(3, len(trimmed.rows))]


def test_with_all_pieces_kept_nothing_changes(atlas: Path, atlas_vocabulary: Path) -> None:
    model = SentencePieceModel.read(atlas_vocabulary)
    trimmed = keep_best_pieces(model, len(model) - 259, lowercase=False)
    assert_same_segmentation(model, trimmed, list(corpus_texts(atlas))[:20])


def test_the_command_cuts_a_vocabulary_down(atlas_vocabulary: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "small.model"
    arguments = ["tokenizer", "trim", str(atlas_vocabulary), "--pieces", "500", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    before, after = SentencePieceModel.read(atlas_vocabulary), SentencePieceModel.read(out)
    assert f"{len(after)} of {len(before)} pieces" in result.output
    assert 759 <= len(after) < len(before)
    result = CliRunner().invoke(app, [*arguments[:2], str(tmp_path), *arguments[3:]])
    assert isinstance(result.exception, InputError)


def test_queries_of_a_beir_folder_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "A", "text": "b"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "c"}\n')
    assert list(corpus_texts(tmp_path)) == ["A b", "c"]


def test_the_trimmed_encoder_gives_the_same_vectors(golden: Any, tmp_path: Path) -> None:
    expected = golden.expected("released_xtr")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(json.dumps({"_id": str(i), "text": t}) + "\n" for i, t in enumerate(expected.texts))
    )
    report = import_checkpoint(
        golden.path("released_xtr"), tmp_path / "trimmed", tokenizer=golden.tokenizer, keep_pieces_of=[corpus]
    )
    encoder, tokenizer = load_encoder(tmp_path / "trimmed")
    assert report.config.vocabulary_size == tokenizer.vocabulary_size < 80
    ids = tokenizer.tokenize_documents(tf.constant(expected.texts))
    length = expected.ids.shape[1]
    assert np.abs(encoder(ids).numpy()[:, :length] - expected.vectors).max() < 2e-5


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["mt5", "t5"])
def test_real_vocabularies_segment_real_texts_as_before(shared_data: Path, tmp_path: Path, name: str) -> None:
    model = SentencePieceModel.read(shared_data / "vocab" / f"{name}.spiece.model")
    with tarfile.open(shared_data / "test" / "xquad_r.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    texts = []
    for corpus in sorted(tmp_path.rglob("corpus.jsonl")):
        texts += list(corpus_texts(corpus))[:40]
    assert len(texts) == 440
    lowered = [text.lower() for text in texts]
    trimmed = trim_vocabulary(model, texts, lowercase=True)
    assert_same_segmentation(model, trimmed, lowered)
    assert len(trimmed.rows) < 0.2 * 250_100
