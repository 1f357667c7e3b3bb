"""Finds the nearest leaf of a token without comparing it with all centres.

Tokens are divided into about 2 sqrt(leaves) coarse cells. For each cell, the leaves of sampled tokens in it
are listed, and a token is compared only with the list of its cell. Lists also hold the leaves of tokens in
neighbouring cells: as many as it takes for 99% of tokens that were held out of the lists to get their nearest
leaf, or one at most 1% farther, by comparison with the exact search. Where that would be more than half of
the leaves, there is no router, and the search is exact. So if tokens have clusters, the cost per token grows
with about the square root of the number of leaves.

Knows nothing about codes, files or TensorFlow.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from xtr_tf.index.kmeans import nearest_centres, train_centres

#: With fewer leaves, comparing a token with all of them takes less time than coding it.
FEWEST_LEAVES = 2_048
#: The share of tokens that must get their nearest leaf, or one at most `FARTHER` times as far.
SHARE, FARTHER = 0.99, 1.01
# Tokens that the share is measured on. The measured share must be two standard deviations above the goal.
_HELD_OUT = 8_192
_TARGET = SHARE + 2 * (SHARE * (1 - SHARE) / _HELD_OUT) ** 0.5
# Number of nearest cells whose lists get the leaf of a sampled token, in the order in which they are tried.
_SPREADS = (1, 2, 4, 8, 16)
_CELLS_PER_ROOT, _ITERATIONS, _SAMPLE_PER_CELL = 2.0, 6, 256


@dataclasses.dataclass(frozen=True)
class LeafRouter:
    """Coarse cells, and the leaves to look at in each.

    Attributes:
        cells: `[cells, dim]` float32, centres of the coarse cells.
        offsets: `[cells + 1]` int64; leaves of cell `i` are `[i]` to `[i + 1]` of `leaves`.
        leaves: `[listed]` int32, ascending in each cell.
    """

    cells: np.ndarray
    offsets: np.ndarray
    leaves: np.ndarray

    def nearest(self, vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """Returns the nearest of the listed leaves of each vector.

        Args:
            vectors: `[vectors, dim]` float32.
            centres: `[leaves, dim]` float32.

        Returns:
            `[vectors]` int64.
        """
        return self.nearest_in(nearest_centres(vectors, self.cells), vectors, centres)

    def nearest_in(self, cell_of_vector: np.ndarray, vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """Does the same for vectors whose cells are known.

        Args:
            cell_of_vector: `[vectors]` integers.
            vectors: `[vectors, dim]` float32.
            centres: `[leaves, dim]` float32.

        Returns:
            `[vectors]` int64.
        """
        nearest = np.empty(len(vectors), np.int64)
        order = np.argsort(cell_of_vector, kind="stable")
        bounds = np.searchsorted(cell_of_vector[order], np.arange(len(self.cells) + 1))
        for cell in np.flatnonzero(np.diff(bounds)):
            rows = order[bounds[cell] : bounds[cell + 1]]
            listed = self.leaves[self.offsets[cell] : self.offsets[cell + 1]]
            if not len(listed):  # no token of the sample was near this cell
                listed = np.arange(len(centres), dtype=np.int32)
            nearest[rows] = listed[nearest_centres(vectors[rows], centres[listed])]
        return nearest


class SampleCells:
    """The coarse cells of a sample, from which routers to changing centres are made.

    Args:
        sample: `[sample, dim]` float32.
        num_leaves: Number of leaves that routers will find.
        seed: Seed of the coarse cells and of the tokens that are held out.
    """

    def __init__(self, sample: np.ndarray, num_leaves: int, seed: int) -> None:
        self._sample, self._num_leaves = sample, num_leaves
        count = round(_CELLS_PER_ROOT * num_leaves**0.5)
        step = max(1, len(sample) // (_SAMPLE_PER_CELL * count))
        self._cells = train_centres(sample[::step], count, _ITERATIONS, seed)
        self._nearest = _nearest_few(sample, self._cells, min(_SPREADS[-1], count))
        generator = np.random.default_rng(seed)
        self._held_out = generator.choice(len(sample), min(_HELD_OUT, len(sample) // 2), replace=False)
        self._spread = 0

    def router(self, leaf_of_token: np.ndarray, centres: np.ndarray) -> LeafRouter | None:
        """Makes a router that keeps its promise for these centres.

        Args:
            leaf_of_token: `[sample]` integers; -1 for tokens whose leaves are not known.
            centres: `[leaves, dim]` float32.

        Returns:
            The router; None if the exact search is about as fast.
        """
        held_out = self._sample[self._held_out]
        exact = _distances(held_out, centres, nearest_centres(held_out, centres))
        cells = self._nearest[self._held_out, 0]
        known = leaf_of_token.copy()
        known[self._held_out] = -1
        for spread in _SPREADS:
            router = self._listed(known, spread)
            if np.diff(router.offsets)[cells].mean() + len(self._cells) > self._num_leaves / 2:
                return None
            found = _distances(held_out, centres, router.nearest_in(cells, held_out, centres))
            if (found <= FARTHER * exact).mean() >= _TARGET:
                self._spread = spread
                return self._listed(leaf_of_token, spread)
        return None

    def again(self, leaf_of_token: np.ndarray, splits: list[tuple[int, int]]) -> LeafRouter:
        """Makes a router like the last one after centres have moved.

        Args:
            leaf_of_token: `[sample]` integers; -1 for tokens whose leaves are not known.
            splits: Pairs of a leaf that was empty and the leaf of which it got half.

        Returns:
            The router.
        """
        router = self._listed(leaf_of_token, self._spread)
        if not splits:
            return router
        cell_of_entry = np.repeat(np.arange(len(self._cells)), np.diff(router.offsets))
        keys = [cell_of_entry * self._num_leaves + router.leaves]
        keys += [cell_of_entry[router.leaves == large] * self._num_leaves + empty for empty, large in splits]
        return self._of_keys(np.unique(np.concatenate(keys)))

    def nearest(self, router: LeafRouter, centres: np.ndarray, step: int) -> np.ndarray:
        """Returns the leaves of every `step`-th token of the sample.

        Args:
            router: The router.
            centres: `[leaves, dim]` float32.
            step: Distance between the tokens.

        Returns:
            `[sample / step]` int64.
        """
        return router.nearest_in(self._nearest[::step, 0], self._sample[::step], centres)

    def _listed(self, leaf_of_token: np.ndarray, spread: int) -> LeafRouter:
        known = np.flatnonzero(leaf_of_token >= 0)
        cells = self._nearest[known, :spread].astype(np.int64)
        return self._of_keys(np.unique(cells * self._num_leaves + leaf_of_token[known, np.newaxis]))

    def _of_keys(self, keys: np.ndarray) -> LeafRouter:
        offsets = np.searchsorted(keys, np.arange(len(self._cells) + 1) * self._num_leaves)
        return LeafRouter(self._cells, offsets, (keys % self._num_leaves).astype(np.int32))


def train_leaves(
    sample: np.ndarray, num_leaves: int, iterations: int, seed: int
) -> tuple[np.ndarray, LeafRouter | None]:
    """Finds the centres of a sample, and a router to them.

    All centres have the same norm. A search ranks leaves by inner product, and the centre of a leaf whose
    tokens differ, such as rare words, is short: its leaf would be searched too late, although one of its
    tokens may be the best match.

    The first iteration is exact. The others use routers if there is one that keeps its promise.

    Args:
        sample: `[sample, dim]` float32, at least as many vectors as leaves.
        num_leaves: Number of centres to find.
        iterations: How many times vectors are assigned and centres are moved.
        seed: Seed of everything that is random.

    Returns:
        `[leaves, dim]` float32, and the router; None if the exact search is about as fast.
    """
    if num_leaves < FEWEST_LEAVES:
        return train_centres(sample, num_leaves, iterations, seed, spherical=True), None
    cells = SampleCells(sample, num_leaves, seed)
    routed = _RoutedAssignment(cells, sample)
    centres = train_centres(sample, num_leaves, iterations, seed, routed, spherical=True)
    return centres, cells.router(routed.of_all(centres), centres)


class _RoutedAssignment:
    """Assigns the tokens of a sample to moving centres."""

    def __init__(self, cells: SampleCells, sample: np.ndarray) -> None:
        self._cells, self._sample = cells, sample
        self._leaves = np.full(len(sample), -1)
        self._steps_tried: set[int] = set()
        self._is_routed = False

    def __call__(self, centres: np.ndarray, step: int, splits: list[tuple[int, int]]) -> np.ndarray:
        if self._is_routed:
            router = self._cells.again(self._leaves, splits)
            nearest = self._cells.nearest(router, centres, step)
        else:
            nearest = nearest_centres(self._sample[::step], centres)
        self._leaves[::step] = nearest
        if step not in self._steps_tried:
            # With more of the sample, shorter lists are enough.
            self._steps_tried.add(step)
            self._is_routed = self._cells.router(self._leaves, centres) is not None
        return nearest

    def of_all(self, centres: np.ndarray) -> np.ndarray:
        """Returns `[sample]` leaves."""
        return self(centres, 1, [])


def _nearest_few(vectors: np.ndarray, centres: np.ndarray, count: int) -> np.ndarray:
    """Returns `[vectors, count]` int32, the nearest centres, nearest first."""
    halves = 0.5 * np.einsum("cd,cd->c", centres, centres)
    nearest = np.empty((len(vectors), count), np.int32)
    rows = 1 << 14
    for start in range(0, len(vectors), rows):
        distances = halves - vectors[start : start + rows] @ centres.T
        few = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.take_along_axis(distances, few, axis=1).argsort(axis=1, kind="stable")
        nearest[start : start + rows] = np.take_along_axis(few, order, axis=1)
    return nearest


def _distances(vectors: np.ndarray, centres: np.ndarray, leaves: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors - centres[leaves], axis=1)
