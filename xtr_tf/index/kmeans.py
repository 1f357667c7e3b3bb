"""Finds the centres of leaves by k-means, and the nearest centre of every vector.

These are Lloyd's iterations over blocks, with plain matrix products. On CPUs this is a few times faster than
k-means in FAISS, whose exact search does not use wide matrix products. Empty leaves get half of a large leaf,
as in FAISS. Knows nothing about codes, files or TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xtr_tf.progress import tracked

# Similarities in memory at a time: 64 MiB.
_MAX_SIMILARITIES = 1 << 24
# The first two thirds of the iterations use every fourth vector, if there are enough of them per leaf.
_COARSE, _ENOUGH_PER_LEAF = 4, 16
# How far the two halves of a split leaf are moved apart, as a share of each coordinate.
_SPLIT = 1 / 1024


#: Returns the leaves of every n-th vector of the sample, given the centres, n, and the leaves that were just
#: split: pairs of the one that was empty and the one of which it got half.
Assignment = Callable[[np.ndarray, int, list[tuple[int, int]]], np.ndarray]


def train_centres(
    sample: np.ndarray,
    num_leaves: int,
    iterations: int,
    seed: int,
    assign: Assignment | None = None,
    spherical: bool = False,
) -> np.ndarray:
    """Finds the centres of a sample.

    Args:
        sample: `[vectors, dim]` float32, at least as many vectors as leaves.
        num_leaves: Number of centres to find.
        iterations: How many times vectors are assigned and centres are moved.
        seed: Seed for the choice of initial vectors and for splits.
        assign: How vectors are assigned; to their nearest centres if None.
        spherical: Whether all centres get the same norm, so that only their directions count.

    Returns:
        `[leaves, dim]` float32.
    """
    generator = np.random.default_rng(seed)
    centres = sample[generator.choice(len(sample), num_leaves, replace=False)]
    # A part of the sample is enough to find roughly where centres are. The last iterations use all of it.
    coarse = _COARSE if len(sample) >= _COARSE * _ENOUGH_PER_LEAF * num_leaves else 1
    splits: list[tuple[int, int]] = []
    for done in tracked(range(iterations), "train leaves", iterations, "iterations"):
        step = coarse if done < iterations * 2 // 3 else 1
        seen = sample[::step]
        nearest = assign(centres, step, splits) if assign else nearest_centres(seen, centres)
        counts = np.bincount(nearest, minlength=num_leaves)
        centres = _sums(seen, nearest, num_leaves) / np.maximum(counts, 1)[:, np.newaxis].astype(np.float32)
        if spherical:
            centres = _with_equal_norms(centres, counts)
        splits = _fill_empty_leaves(centres, counts, generator)
    return centres


def nearest_centres(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Returns the nearest centre (L2) of each vector. If several are equally near, the first one.

    Args:
        vectors: `[vectors, dim]` float32.
        centres: `[leaves, dim]` float32.

    Returns:
        `[vectors]` int64.
    """
    # |x - c|^2 is least where x.c - |c|^2 / 2 is greatest. A column of ones adds the second term.
    halves = 0.5 * np.einsum("cd,cd->c", centres, centres)
    widened = np.concatenate([centres, -halves[:, np.newaxis]], axis=1).T
    nearest = np.empty(len(vectors), np.int64)
    rows = max(1, _MAX_SIMILARITIES // len(centres))
    for start in range(0, len(vectors), rows):
        block = vectors[start : start + rows]
        ones = np.ones((len(block), 1), np.float32)
        similarities = np.concatenate([block, ones], axis=1) @ widened
        nearest[start : start + rows] = similarities.argmax(axis=1)
    return nearest


def _sums(vectors: np.ndarray, leaf_of_vector: np.ndarray, num_leaves: int) -> np.ndarray:
    """Returns the sum of the vectors in each leaf, `[leaves, dim]`."""
    sums = np.zeros((num_leaves, vectors.shape[1]), np.float32)
    rows = 1 << 16
    for start in range(0, len(vectors), rows):
        leaves = leaf_of_vector[start : start + rows]
        order = np.argsort(leaves, kind="stable")
        present, firsts = np.unique(leaves[order], return_index=True)
        sums[present] += np.add.reduceat(vectors[start : start + rows][order], firsts, axis=0)
    return sums


def _with_equal_norms(centres: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scales centres to their mean norm over all vectors, which moves them as little as possible."""
    norms = np.linalg.norm(centres, axis=1)
    mean = float(np.average(norms, weights=counts))
    # An empty leaf has no centre yet.
    scales = np.divide(mean, norms, out=np.ones_like(norms), where=norms > 0)
    return centres * scales[:, np.newaxis]


def _fill_empty_leaves(
    centres: np.ndarray, counts: np.ndarray, generator: np.random.Generator
) -> list[tuple[int, int]]:
    """Gives every empty leaf half of another leaf, in place, and returns pairs of both.

    Larger leaves are more likely to be split.
    """
    apart = np.where(np.arange(centres.shape[1]) % 2, 1 - _SPLIT, 1 + _SPLIT).astype(np.float32)
    splits = []
    for empty in np.flatnonzero(counts == 0).tolist():
        surplus = np.maximum(counts - 1, 0)
        large = int(generator.choice(len(centres), p=surplus / surplus.sum()))
        splits.append((empty, large))
        centres[empty] = centres[large] * apart
        centres[large] /= apart
        counts[empty] = counts[large] // 2
        counts[large] -= counts[empty]
    return splits
