"""Documents by piece, against counting them one by one."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from xtr_tf.index import frequencies as counting
from xtr_tf.index.frequencies import PieceFrequencies

PIECES = np.array([5, 5, 9, 1, 9, 9, 9, 2, 5, 1], np.int32)
OFFSETS = np.array([0, 3, 3, 7, 10])  # the second document has no tokens


def slowly(pieces: np.ndarray, offsets: np.ndarray) -> dict[int, int]:
    bounds = itertools.pairwise(offsets)
    return Counter(piece for start, end in bounds for piece in set(pieces[start:end].tolist()))


def as_dict(found: PieceFrequencies) -> dict[int, int]:
    return dict(zip(found.pieces.tolist(), found.documents.tolist(), strict=True))


@pytest.mark.parametrize("block", [1, 4, 1 << 22])
def test_counting(monkeypatch, block):
    monkeypatch.setattr(counting, "_BLOCK", block)
    found = PieceFrequencies.of(PIECES, OFFSETS)
    assert as_dict(found) == slowly(PIECES, OFFSETS) == {5: 2, 9: 2, 1: 2, 2: 1}
    assert found.of_vocabulary(11).tolist() == [0, 2, 1, 0, 0, 2, 0, 0, 0, 2, 0]


def test_parts_add_up():
    parts = [
        PieceFrequencies.of(PIECES[:3], OFFSETS[:3]),
        PieceFrequencies.of(PIECES[3:], OFFSETS[2:] - 3),
    ]
    assert as_dict(PieceFrequencies.total(parts)) == slowly(PIECES, OFFSETS)
    assert as_dict(PieceFrequencies.total([])) == {}
    generator = np.random.default_rng(0)
    pieces = generator.integers(0, 50, 1000).astype(np.int32)
    offsets = np.sort(np.append(generator.integers(0, 1000, 60), [0, 1000]))
    assert as_dict(PieceFrequencies.of(pieces, offsets)) == slowly(pieces, offsets)
