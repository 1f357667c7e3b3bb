"""Lengths of token vectors by the size of their document and by repetition."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.vectors.token_lengths import TokenLengths


def slow_lengths(pieces: list[int], penalty: float, bonus: float) -> list[float]:
    return [(len(pieces) / 128) ** -penalty * (1 + bonus * np.log(pieces.count(piece))) for piece in pieces]


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
        np.testing.assert_allclose(lengths.of(np.array(document)), expected, rtol=1e-6)
        np.testing.assert_allclose(row[valid], expected, rtol=rounding(8))
        assert np.all(row[~valid] == 1)


def test_a_text_without_tokens_has_no_lengths() -> None:
    lengths = TokenLengths(0.1, 0.1)
    assert lengths.of(np.zeros(0, np.int32)).shape == (0,)
    empty = lengths.of_batch(tf.zeros([2, 0], tf.int32), tf.zeros([2, 0], tf.bool))
    assert empty.shape == [2, 0]
