"""The fused score of the graph is that of its NumPy twin, and its scale is the query's own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.scoring import fusion_reference
from xtr_tf.scoring.fusion import SPREAD_DEPTH, fuse, lexical_scale

FLOOR = np.float32(0.4)
TOLERANCE = rounding(SPREAD_DEPTH, 2.0)
SIZES = {"few": 7, "many": 5 * SPREAD_DEPTH}


def scores(documents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """f_XTR' of half of the documents, and BM25 of another half."""
    rng = np.random.default_rng(seed)
    xtr = np.where(rng.random(documents) < 0.5, rng.uniform(FLOOR, 1, documents), -np.inf)
    lexical = np.where(rng.random(documents) < 0.5, rng.gamma(2, 5, documents), 0)
    return xtr.astype(np.float32), lexical.astype(np.float32)


def in_graph(
    xtr: np.ndarray, lexical: np.ndarray, alpha: float, fusion: str, documents: int = 0
) -> np.ndarray:
    @tf.function
    def run() -> tf.Tensor:
        scale = lexical_scale(xtr, lexical, FLOOR, documents or len(xtr))
        return fuse(tf.constant(xtr), tf.constant(lexical), FLOOR, scale, alpha, tf.constant(fusion))

    return run().numpy()


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_the_graph_fuses_as_its_twin(size: str, alpha: float, fusion: str) -> None:
    xtr, lexical = scores(SIZES[size])
    expected = fusion_reference.fuse(xtr[None], lexical[None], np.array([FLOOR]), alpha, fusion)[0]
    np.testing.assert_allclose(in_graph(xtr, lexical, alpha, fusion), expected, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_none_and_all_of_bm25_rank_as_either(size: str) -> None:
    xtr, lexical = scores(SIZES[size])
    np.testing.assert_array_equal(in_graph(xtr, lexical, 0.0, "weighted"), xtr)
    found = in_graph(xtr, lexical, 1.0, "weighted")
    assert np.array_equal(np.isfinite(found), lexical > 0)
    order = np.argsort(-found)[: (lexical > 0).sum()]
    assert (np.diff(lexical[order]) <= 0).all()


def test_units_of_bm25_do_not_matter() -> None:
    xtr, lexical = scores(SIZES["many"])
    one, other = (in_graph(xtr, factor * lexical, 0.5, "weighted") for factor in (1, 64))
    np.testing.assert_allclose(one, other, atol=TOLERANCE)


def test_documents_that_may_not_be_found_do_not_move_the_scale() -> None:
    xtr, lexical = scores(SIZES["few"])
    padding = np.full(50, -np.inf, np.float32), np.zeros(50, np.float32)
    filtered = in_graph(np.append(xtr, padding[0]), np.append(lexical, padding[1]), 0.5, "weighted", len(xtr))
    np.testing.assert_allclose(filtered[: len(xtr)], in_graph(xtr, lexical, 0.5, "weighted"), atol=TOLERANCE)


@pytest.mark.parametrize("matches", [[0, 0, 0], [2, 2, 2]])
def test_bm25_that_tells_nothing_leaves_the_order_to_f_xtr(matches: list[float]) -> None:
    xtr = np.array([0.5, 0.9, 0.7], np.float32)
    found = in_graph(xtr, np.array(matches, np.float32), 0.5, "weighted")
    assert np.isfinite(found).all()
    assert np.argsort(-found).tolist() == [1, 2, 0]


def test_f_xtr_that_tells_nothing_leaves_the_order_to_bm25() -> None:
    nothing = np.full(3, -np.inf, np.float32)
    found = in_graph(nothing, np.array([1, 3, 2], np.float32), 0.5, "weighted")
    assert np.argsort(-found).tolist() == [1, 2, 0]


@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_how_far_rounding_of_f_xtr_moves_a_fused_score(size: str, alpha: float) -> None:
    furthest = 0.0
    for seed in range(50):
        xtr, lexical = scores(SIZES[size], seed)
        if not lexical.any():
            continue
        rng, error = np.random.default_rng(seed), 1e-3
        # Away from the mean of the best, which widens their spread the most; the floor may move, too.
        best = np.sort(np.maximum(xtr, FLOOR))[-SPREAD_DEPTH:]
        moved = xtr + error * np.sign(xtr - best.mean())
        floors = np.array([FLOOR]), np.array([FLOOR - error * rng.choice([0.0, 1.0])])
        before, after = (
            fusion_reference.fuse(own[np.newaxis], lexical[np.newaxis], floor, alpha)
            for own, floor in zip((xtr, moved), floors, strict=True)
        )
        candidates = np.isfinite(before)
        difference = np.abs(after - before)[candidates].max()
        bound = error * (1 + alpha * fusion_reference.steepness(lexical[np.newaxis]))
        assert difference <= bound * (1 + 1e-6)
        furthest = max(furthest, difference / error)
    assert furthest > 1.1  # further than f_XTR' itself
