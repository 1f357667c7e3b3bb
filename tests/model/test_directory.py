from __future__ import annotations

import dataclasses
import io
import json
import shutil

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import (
    MANIFEST_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    load_encoder,
    read_manifest,
    save_encoder,
)
from xtr_tf.model.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the nile flows north"]), model_writer=model, vocab_size=40, pad_id=0,
        eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    config = TokenizerConfig(lowercase=False, query_length=5, document_length=9)
    return Tokenizer(config, model=model.getvalue())


@pytest.fixture
def saved(tmp_path, small_encoder, tokenizer):
    save_encoder(tmp_path / "encoder", small_encoder, tokenizer)
    return tmp_path / "encoder"


def test_comes_back_as_it_was(saved, small_encoder, tokenizer):
    encoder, loaded = load_encoder(saved)
    assert encoder.config == small_encoder.config
    assert dataclasses.replace(loaded.config, model="") == tokenizer.config
    assert loaded.fingerprint == tokenizer.fingerprint
    ids = loaded.tokenize_documents(tf.constant(["the nile flows"]))
    np.testing.assert_array_equal(encoder(ids), small_encoder(ids))


def test_a_factored_encoder_comes_back_as_it_was(tmp_path, make_encoder, make_ids, tokenizer):
    encoder = make_encoder(embedding_dim=8)
    save_encoder(tmp_path / "factored", encoder, tokenizer)
    loaded, _ = load_encoder(tmp_path / "factored")
    assert loaded.config == encoder.config
    ids = make_ids([5, 9, 1])
    np.testing.assert_array_equal(loaded(ids), encoder(ids))


@pytest.mark.parametrize(("storage", "error", "size"), [("float16", 1e-3, 2), ("bfloat16", 1e-2, 2)])
def test_half_precision_halves_the_file(tmp_path, saved, small_encoder, tokenizer, storage, error, size):
    save_encoder(tmp_path / "half", small_encoder, tokenizer, storage=storage)
    ratio = (saved / WEIGHTS_FILE).stat().st_size / (tmp_path / "half" / WEIGHTS_FILE).stat().st_size
    assert ratio == pytest.approx(size, rel=0.1)
    encoder, _ = load_encoder(tmp_path / "half")
    for name, weight in small_encoder.get_canonical_weights().items():
        loaded = encoder.get_canonical_weights()[name]
        assert loaded.dtype == np.float32
        np.testing.assert_allclose(loaded, weight, atol=error * np.abs(weight).max())


def test_dtype_can_be_chosen_when_loading(saved):
    encoder, _ = load_encoder(saved, dtype="mixed_bfloat16")
    assert encoder.config.dtype == "mixed_bfloat16"
    assert encoder.compute_dtype == "bfloat16"


def test_fingerprint_tells_encoders_apart(tmp_path, small_encoder, tokenizer, make_encoder):
    other_weights = Encoder(small_encoder.config, seed=1)
    other_tokenizer = Tokenizer(
        dataclasses.replace(tokenizer.config, lowercase=True), model=tokenizer.model_bytes
    )
    fingerprints = [
        save_encoder(tmp_path / "a", small_encoder, tokenizer),
        save_encoder(tmp_path / "b", other_weights, tokenizer),
        save_encoder(tmp_path / "c", small_encoder, other_tokenizer),
        save_encoder(tmp_path / "d", make_encoder(dropout=0.2), tokenizer),
    ]
    assert len(set(fingerprints)) == 4
    assert save_encoder(tmp_path / "again", small_encoder, tokenizer) == fingerprints[0]
    assert read_manifest(tmp_path / "a").fingerprint == fingerprints[0]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def change_one_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, change_one_bit], ids=lambda function: function.__name__)
@pytest.mark.parametrize("file", [WEIGHTS_FILE, TOKENIZER_FILE])
def test_changed_files_are_refused(saved, file, damage):
    damage(saved / file)
    with pytest.raises(InputError, match=r"truncated or were changed.* Received: "):
        load_encoder(saved)


@pytest.mark.parametrize("file", [WEIGHTS_FILE, TOKENIZER_FILE, MANIFEST_FILE])
def test_missing_files_are_named(saved, file):
    (saved / file).unlink()
    with pytest.raises(InputError, match=rf"{file}.* Received: "):
        load_encoder(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "another"}, "does not describe an encoder"),
        ({"version": 2}, "Only version 1 .* Received: version 2"),
        ({"encoder": {"unknown_field": 1}}, "cannot be understood"),
        ({"encoder": {"num_layers": 0}}, "cannot be understood"),
        ({"encoder": None}, "cannot be understood"),
        ({"tokenizer": {"lowercase": True}}, "truncated or were changed"),
    ],
)
def test_foreign_manifests_are_refused(saved, change, message):
    content = json.loads((saved / MANIFEST_FILE).read_text())
    (saved / MANIFEST_FILE).write_text(json.dumps(content | change))
    with pytest.raises(InputError, match=message):
        load_encoder(saved)


@pytest.mark.parametrize("content", ["", "[]", "no json", "{}"])
def test_a_file_that_is_not_a_manifest_is_refused(saved, content):
    (saved / MANIFEST_FILE).write_text(content)
    with pytest.raises(InputError, match="encoder"):
        load_encoder(saved)


def test_a_directory_is_replaced_only_when_asked(saved, small_encoder, tokenizer):
    with pytest.raises(InputError, match="exists"):
        save_encoder(saved, small_encoder, tokenizer)
    save_encoder(saved, small_encoder, tokenizer, storage="float16", overwrite=True)
    load_encoder(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["encoder"]


def test_a_failure_leaves_the_old_directory_and_nothing_else(saved):
    before = (saved / MANIFEST_FILE).read_bytes()
    with pytest.raises(IsADirectoryError), atomic_directory(saved, overwrite=True) as staging:
        staging.write_text("half a file")
    assert [path.name for path in saved.parent.iterdir()] == ["encoder"]
    assert (saved / MANIFEST_FILE).read_bytes() == before


def test_a_tokenizer_with_more_pieces_than_embeddings_is_refused(tmp_path, make_encoder, tokenizer):
    encoder = make_encoder(vocabulary_size=10)
    with pytest.raises(InputError, match="more pieces than the encoder has embeddings"):
        save_encoder(tmp_path / "encoder", encoder, tokenizer)
    assert list(tmp_path.iterdir()) == []


def test_unknown_storage_is_refused(tmp_path, small_encoder, tokenizer):
    with pytest.raises(InputError, match="Received: 'int8'"):
        save_encoder(tmp_path / "encoder", small_encoder, tokenizer, storage="int8")


def test_a_copy_elsewhere_loads(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "elsewhere" / "copy")
    shutil.rmtree(saved)
    encoder, tokenizer = load_encoder(tmp_path / "elsewhere" / "copy")
    assert encoder(tokenizer.tokenize_queries(tf.constant(["nile"]))).shape == [1, 5, 24]
