"""Lengths of token vectors by the size of their document and by repetition."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.vectors.token_lengths import TokenLengths

END = 0


def slow_lengths(pieces: list[int], penalty: float, bonus: float) -> list[float]:
    counts = [1 if piece == END else pieces.count(piece) for piece in pieces]
    return [(len(pieces) / 128) ** -penalty * (1 + bonus * np.log(count)) for count in counts]


@pytest.mark.parametrize(("penalty", "bonus"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.1), (0.3, 0.2)])
def test_both_implementations_are_the_definition(penalty: float, bonus: float) -> None:
    generator = np.random.default_rng(0)
    lengths = TokenLengths(penalty, bonus)
    assert lengths.are_one == (penalty == bonus == 0)
    documents = [generator.integers(1, 9, size).tolist() for size in (1, 2, 17, 40)]
    ids = tf.ragged.constant(documents).to_tensor(0)
    mask = tf.sequence_mask([len(document) for document in documents])
    batch = lengths.of_batch(ids, mask).numpy()
    for row, valid, document in zip(batch, mask.numpy(), documents, strict=True):
        expected = slow_lengths(document, penalty, bonus)
        np.testing.assert_allclose(lengths.of(np.array(document), END), expected, rtol=rounding(4))
        np.testing.assert_allclose(row[valid], expected, rtol=rounding(8))
        assert np.all(row[~valid] == 1)


def test_a_text_without_tokens_has_no_lengths() -> None:
    lengths = TokenLengths(0.1, 0.1)
    assert lengths.of(np.zeros(0, np.int32), END).shape == (0,)
    empty = lengths.of_batch(tf.zeros([2, 0], tf.int32), tf.zeros([2, 0], tf.bool))
    assert empty.shape == [2, 0]


def test_the_ends_of_several_passages_are_no_repetition() -> None:
    pieces = np.array([5, 6, END, 5, 7, END, 8, END])
    lengths = TokenLengths(0.0, 0.5).of(pieces, END)
    np.testing.assert_allclose(lengths, slow_lengths(pieces.tolist(), 0.0, 0.5), rtol=rounding(4))
    assert lengths[0] > 1
    assert np.all(lengths[pieces == END] == 1)


def test_lengths_are_read_from_the_settings_of_vectors() -> None:
    assert TokenLengths.of_settings({"overlap": 5}).are_one
    assert TokenLengths.of_settings({"repetition_bonus": 0.5}) == (0.0, 0.5)
