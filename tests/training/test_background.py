"""How common pieces are in training texts, and where that is kept."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.errors import InputError
from xtr_tf.model.folder import BACKGROUND_FILE, load_encoder, read_background, save_encoder
from xtr_tf.training.background import pieces_in


def test_texts_with_a_piece_are_counted_once():
    ids = np.array([[3, 3, 1, 0], [4, 3, 1, 0], [1, 0, 0, 0]])
    assert pieces_in(ids, 6, pad_id=0).tolist() == [0, 3, 0, 2, 1, 0]


def test_kept_with_the_encoder(tiny_corpus, tmp_path):
    shares = np.linspace(0, 1, tiny_corpus.tokenizer.vocabulary_size)
    parts = (tiny_corpus.encoder, tiny_corpus.tokenizer)
    fingerprint = save_encoder(tmp_path / "with", *parts, background=shares)
    assert save_encoder(tmp_path / "without", *parts) == fingerprint
    kept = read_background(tmp_path / "with", len(shares))
    assert kept is not None
    np.testing.assert_array_equal(kept, shares.astype(np.float32))
    assert read_background(tmp_path / "without", len(shares)) is None
    load_encoder(tmp_path / "with")


@pytest.mark.parametrize("content", [b"no array", None])
def test_an_invalid_file(tiny_corpus, tmp_path, content):
    size = tiny_corpus.tokenizer.vocabulary_size
    background = np.full(size, 2.0) if content is None else None
    save_encoder(tmp_path / "e", tiny_corpus.encoder, tiny_corpus.tokenizer, background=background)
    if content is not None:
        (tmp_path / "e" / BACKGROUND_FILE).write_bytes(content)
    with pytest.raises(
        InputError, match=r"background.npy must hold a share from 0 to 1 for each of \d+ pieces"
    ):
        read_background(tmp_path / "e", size)
