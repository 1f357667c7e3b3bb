"""The centres of an index's leaves, by k-means, and the nearest centre of every vector.

Lloyd's iterations over blocks, by plain matrix products: a few times faster than FAISS' own on CPUs,
whose exact search does not use wide matrix products. Empty leaves are split off large ones, as in
FAISS. Knows nothing of codes, files or TensorFlow.
"""

from __future__ import annotations

import numpy as np

from xtr_tf.progress import tracked

# Similarities held at once: 64 MiB.
_MAX_SIMILARITIES = 1 << 24
# The first two thirds of the iterations look at every fourth vector, if those are enough for every leaf.
_COARSE, _ENOUGH_PER_LEAF = 4, 16
# How far the halves of a split leaf move apart, as a share of each coordinate.
_SPLIT = 1 / 1024


def train_centres(sample: np.ndarray, num_leaves: int, iterations: int, seed: int) -> np.ndarray:
    """Finds the centres of a sample.

    Args:
        sample: `[vectors, dim]` float32, at least as many as leaves.
        num_leaves: Centres to find.
        iterations: How often vectors are assigned and centres moved.
        seed: Of the vectors to begin with, and of splits.

    Returns:
        `[leaves, dim]` float32.
    """
    generator = np.random.default_rng(seed)
    centres = sample[generator.choice(len(sample), num_leaves, replace=False)]
    # Where centres roughly lie, a part of the sample tells as well; the whole of it has the last word.
    coarse = sample[::_COARSE] if len(sample) >= _COARSE * _ENOUGH_PER_LEAF * num_leaves else sample
    for done in tracked(range(iterations), "train leaves", iterations, "iterations"):
        seen = coarse if done < iterations * 2 // 3 else sample
        nearest = nearest_centres(seen, centres)
        counts = np.bincount(nearest, minlength=num_leaves)
        centres = _sums(seen, nearest, num_leaves) / np.maximum(counts, 1)[:, np.newaxis].astype(np.float32)
        _fill_empty_leaves(centres, counts, generator)
    return centres


def nearest_centres(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Returns the nearest centre (L2) of each vector, `[vectors]` int64; of equally near ones the first.

    Args:
        vectors: `[vectors, dim]` float32.
        centres: `[leaves, dim]` float32.

    Returns:
        `[vectors]` int64.
    """
    # |x - c|^2 is least where x.c - |c|^2 / 2 is greatest; a column of ones brings in the second part.
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
    """The sum of the vectors of each leaf, `[leaves, dim]`."""
    sums = np.zeros((num_leaves, vectors.shape[1]), np.float32)
    rows = 1 << 16
    for start in range(0, len(vectors), rows):
        leaves = leaf_of_vector[start : start + rows]
        order = np.argsort(leaves, kind="stable")
        present, firsts = np.unique(leaves[order], return_index=True)
        sums[present] += np.add.reduceat(vectors[start : start + rows][order], firsts, axis=0)
    return sums


def _fill_empty_leaves(centres: np.ndarray, counts: np.ndarray, generator: np.random.Generator) -> None:
    """Gives every empty leaf one half of another; the larger a leaf, the likelier it is split. In place."""
    apart = np.where(np.arange(centres.shape[1]) % 2, 1 - _SPLIT, 1 + _SPLIT).astype(np.float32)
    for empty in np.flatnonzero(counts == 0):
        surplus = np.maximum(counts - 1, 0)
        large = generator.choice(len(centres), p=surplus / surplus.sum())
        centres[empty] = centres[large] * apart
        centres[large] /= apart
        counts[empty] = counts[large] // 2
        counts[large] -= counts[empty]
