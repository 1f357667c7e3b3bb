"""Our k-means against FAISS', and the nearest centres against brute force."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from tests.support.numbers import rounding
from xtr_tf.index import kmeans
from xtr_tf.index.kmeans import nearest_centres, train_centres


@pytest.fixture
def sample() -> np.ndarray:
    generator = np.random.default_rng(0)
    means = generator.normal(size=(40, 16))
    points = means[generator.integers(40, size=3000)] + 0.3 * generator.normal(size=(3000, 16))
    return points.astype(np.float32)


def error(sample: np.ndarray, centres: np.ndarray) -> float:
    distances, _ = faiss.knn(sample, np.ascontiguousarray(centres), 1)
    return float(distances.sum())


@pytest.mark.parametrize("at_once", [1, 7_000, 1 << 24])
def test_nearest_centres_are_those_of_brute_force(sample, monkeypatch, at_once):
    monkeypatch.setattr(kmeans, "_MAX_SIMILARITIES", at_once)
    vectors, centres = sample[:200], sample[500:600]
    distances = ((vectors[:, np.newaxis].astype(np.float64) - centres) ** 2).sum(axis=-1)
    own = np.take_along_axis(distances, nearest_centres(vectors, centres)[:, np.newaxis].astype(int), 1)
    sizes = (vectors.astype(np.float64) ** 2).sum(axis=-1) + (centres**2).sum(axis=-1).max()
    assert (own[:, 0] <= distances.min(axis=1) + rounding(2 * 16, sizes)).all()


@pytest.mark.parametrize("cells", [45, 100])  # with and without rounds over a part of the sample
def test_centres_are_as_good_as_faiss(sample, cells):
    theirs = faiss.Kmeans(16, cells, niter=10, seed=1, min_points_per_centroid=1)
    theirs.train(sample)
    ours = train_centres(sample, cells, 10, seed=1)
    assert ours.shape == (cells, 16)
    assert ours.dtype == np.float32
    assert error(sample, ours) < 1.02 * error(sample, theirs.centroids)


def test_spherical_centres_are_as_good_as_faiss(sample):
    directions = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    theirs = faiss.Kmeans(16, 100, niter=10, seed=1, spherical=True, min_points_per_centroid=1)
    theirs.train(directions)
    ours = train_centres(directions, 100, 10, seed=1, spherical=True)
    norms = np.linalg.norm(ours, axis=1, keepdims=True)
    np.testing.assert_allclose(norms, norms.mean(), rtol=2e-3)  # halves of a leaf differ by a thousandth
    assert error(directions, ours / norms) < 1.02 * error(directions, theirs.centroids)


def test_more_rounds_fit_better_and_a_seed_decides(sample):
    errors = [error(sample, train_centres(sample, 50, rounds, seed=3)) for rounds in (0, 1, 5)]
    assert errors[0] > errors[1] > errors[2]
    np.testing.assert_array_equal(train_centres(sample, 50, 3, seed=4), train_centres(sample, 50, 3, seed=4))


def test_empty_leaves_are_split_off_large_ones(sample):
    doubled = np.repeat(sample[:30], 10, axis=0)
    centres = train_centres(doubled, 60, 5, seed=0)
    assert np.isfinite(centres).all()
    assert error(doubled, centres) < 1e-2 * error(doubled, doubled[:1])


def test_as_many_leaves_as_vectors_are_the_vectors(sample):
    few = sample[:20]
    centres = train_centres(few, 20, 3, seed=0)
    np.testing.assert_allclose(centres[nearest_centres(few, centres)], few, atol=1e-5)
