"""Routers keep their promise, compared with the exact search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pytest

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.index import routing
from xtr_tf.index.build import build_index
from xtr_tf.index.kmeans import nearest_centres, train_centres
from xtr_tf.index.quantizer import TokenQuantizer, trained_quantizer
from xtr_tf.index.routing import FARTHER, SHARE, LeafRouter, SampleCells, train_leaves
from xtr_tf.index.update import update_index
from xtr_tf.index.vector_source import ArrayVectors
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import compare_documents, update_vectors

DIM, LEAVES = 16, 400


@pytest.fixture(autouse=True)
def _routers_for_few_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "FEWEST_LEAVES", 100)


def clustered(count: int, seed: int) -> np.ndarray:
    """Tokens of 300 words with 30 senses."""
    fixed, generator = np.random.default_rng(0), np.random.default_rng(seed)
    words = fixed.normal(size=(30, DIM))[fixed.integers(30, size=300)] + 0.4 * fixed.normal(size=(300, DIM))
    tokens = words[generator.integers(300, size=count)] + 0.2 * generator.normal(size=(count, DIM))
    return (tokens / np.linalg.norm(tokens, axis=1, keepdims=True)).astype(np.float32)


def distances(tokens: np.ndarray, centres: np.ndarray, leaves: np.ndarray) -> np.ndarray:
    return np.linalg.norm(tokens - centres[leaves], axis=1)


def test_nearly_all_tokens_get_their_nearest_leaf() -> None:
    centres, router = train_leaves(clustered(64 * LEAVES, 1), LEAVES, 10, seed=0)
    assert router is not None
    tokens = clustered(50_000, 2)
    exact = distances(tokens, centres, nearest_centres(tokens, centres))
    found = distances(tokens, centres, router.nearest(tokens, centres))
    assert (found >= exact - 1e-6).all()
    assert (found <= FARTHER * exact).mean() >= SHARE
    compared = len(router.cells) + np.diff(router.offsets)[nearest_centres(tokens, router.cells)].mean()
    assert compared < LEAVES / 2


def test_routed_leaves_are_as_good_as_exact_ones() -> None:
    sample = clustered(64 * LEAVES, 1)
    errors = [
        float(faiss.knn(sample, np.ascontiguousarray(centres), 1)[0].sum())
        for centres in (
            train_leaves(sample, LEAVES, 10, seed=0)[0],
            train_centres(sample, LEAVES, 10, seed=0, spherical=True),
        )
    ]
    assert errors[0] < 1.01 * errors[1]


def test_tokens_without_clusters_are_searched_exactly() -> None:
    sample = np.random.default_rng(1).normal(size=(64 * LEAVES, 64)).astype(np.float32)
    centres, router = train_leaves(sample, LEAVES, 3, seed=0)
    assert router is None
    np.testing.assert_array_equal(centres, train_centres(sample, LEAVES, 3, seed=0, spherical=True))


def test_the_leaves_of_rare_words_are_not_searched_too_late() -> None:
    generator = np.random.default_rng(4)
    rare = generator.normal(size=(2_000, DIM)).astype(np.float32)
    rare /= np.linalg.norm(rare, axis=1, keepdims=True)
    sample = np.concatenate([clustered(64 * LEAVES, 1), rare])

    def found(centres: np.ndarray) -> float:
        """The share of rare words whose leaves are among the first five, ranked by inner product."""
        nearest = np.argpartition(-(rare @ centres.T), 5, axis=1)[:, :5]
        return float((nearest == nearest_centres(rare, centres)[:, np.newaxis]).any(axis=1).mean())

    assert found(train_leaves(sample, LEAVES, 10, seed=0)[0]) == 1
    assert found(train_centres(sample, LEAVES, 10, seed=0)) < 0.9


def test_a_token_gets_the_nearest_leaf_of_its_cell() -> None:
    generator = np.random.default_rng(3)
    tokens, centres, cells = (
        generator.normal(size=(count, DIM)).astype(np.float32) for count in (500, 40, 4)
    )
    lists = [[1, 5, 9], list(range(20, 40)), [7], []]
    offsets = np.cumsum([0, *map(len, lists)])
    router = LeafRouter(cells, offsets, np.concatenate(lists).astype(np.int32))
    for token, leaf in zip(tokens, router.nearest(tokens, centres), strict=True):
        cell = np.linalg.norm(cells - token, axis=1).argmin()
        listed = np.array(
            lists[cell] or range(40)
        )  # a cell that the sample did not reach is searched exactly
        assert leaf == listed[np.linalg.norm(centres[listed] - token, axis=1).argmin()]


def test_both_halves_of_a_split_leaf_are_found() -> None:
    sample = clustered(64 * LEAVES, 1)
    cells = SampleCells(sample, LEAVES, seed=0)
    centres = train_centres(sample, LEAVES, 5, seed=0)
    leaves = nearest_centres(sample, centres)
    assert cells.router(leaves, centres) is not None
    large = int(np.bincount(leaves).argmax())
    empty = int(leaves[leaves != large][0])
    leaves[leaves == empty] = large
    centres[empty] = sample[leaves == large][0]
    assert (cells.nearest(cells.again(leaves, []), centres, 1) != empty).all()
    assert (cells.nearest(cells.again(leaves, [(empty, large)]), centres, 1) == empty).any()


@pytest.mark.parametrize("kind", ["scann", "core"])
def test_an_index_keeps_its_router(kind: str, tmp_path: Path) -> None:
    source = ArrayVectors(clustered(20_000, 1), np.repeat(np.arange(200), 100))
    index = build_index(source, tmp_path / "index", IndexConfig(kind=kind, num_leaves=LEAVES))
    quantizer = trained_quantizer(index)
    assert quantizer is not None
    assert quantizer.router is not None
    again = build_index(source, tmp_path / "again", index.config, quantizer)
    assert again.manifest.files == index.manifest.files
    tokens = clustered(1_000, 5)
    np.testing.assert_array_equal(
        quantizer.assign(tokens), quantizer.router.nearest(tokens, quantizer.centres)
    )


def test_a_refresh_with_a_router_equals_a_full_build(
    make_vectors: Callable[..., TokenVectors], tmp_path: Path
) -> None:
    base = make_vectors("base", [f"d{number}" for number in range(900)], spread=0.1)
    added = make_vectors("added", ["new"], seed=2, shards=1)
    index = build_index(base, tmp_path / "index", IndexConfig(kind="scann", num_leaves=120))
    quantizer = trained_quantizer(index)
    assert isinstance(quantizer, TokenQuantizer)
    assert quantizer.router is not None
    changes = compare_documents(base, added, ["d3"])
    vectors = update_vectors(base, added, changes, tmp_path / "vectors")
    refreshed = update_index(index, vectors, changes.kept, tmp_path / "refreshed")
    rebuilt = build_index(vectors, tmp_path / "rebuilt", index.config, quantizer)
    for name in (name for name in rebuilt.manifest.files if name.endswith(".npy")):
        assert refreshed.manifest.files[name] == rebuilt.manifest.files[name], name
