"""Measures how far rounding can move the results of an index, by moving its query vectors a little.

Other processors add the terms of a sum in another order, and an index may amplify the difference: ScaNN's
8-bit lookup tables turn the last bit of a query vector into 1e-4 to 1e-3 of a score. So the index itself is
queried to see how far its results move: for vectors a few units in the last place away, and for vectors as
far away as the rounding of the encoder. Knows only arrays and needs no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.reference_cases import ReferenceCase

Answer = Mapping[str, np.ndarray]
#: From `[queries, length, dim]` vectors to the answer of a signature.
Ask = Callable[[np.ndarray], Answer]

_EPSILON = float(np.finfo(np.float32).eps)
_DRAWS = 16
_ULPS = 2
# 16 draws find common cases. Another processor may differ by more than the worst of them.
_MARGIN = 2.0
# Rounding differs between single texts and a batch as much as between two processors. A bound must be larger.
_ENCODER_MARGIN = 8.0
# A query is at an edge of the index if its scores move this many times as far as those of others.
_EDGE = 4.0


def encoder_tolerance(batch: Answer, alone: Sequence[Answer]) -> float:
    """Returns how far the vectors of a text may be from the recorded ones, relative to their length.

    Args:
        batch: `encodings` and `mask` of texts that were encoded together.
        alone: The same for each text, encoded separately.

    Returns:
        A share of the length.
    """
    dim = batch["encodings"].shape[-1]
    worst = _EPSILON * np.sqrt(dim)
    for vectors, mask, single in zip(batch["encodings"], batch["mask"], alone, strict=True):
        together, apart = vectors[mask], single["encodings"][0][single["mask"][0]]
        distances = np.linalg.norm(np.float64(together) - apart, axis=1)
        worst = max(worst, float(np.max(distances / np.linalg.norm(together, axis=1), initial=0.0)))
    return _ENCODER_MARGIN * worst


def moved_by_ulps(vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the vectors several times, with every number moved by up to a few units in its last place.

    Args:
        vectors: Float32 array of any shape.

    Yields:
        Arrays of the same shape.
    """
    generator = np.random.default_rng(0)
    for _ in range(_DRAWS):
        steps = generator.integers(-_ULPS, _ULPS, vectors.shape, endpoint=True)
        yield (vectors + steps * np.spacing(vectors)).astype(np.float32)


def moved_by(distance: float, vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the vectors several times, each moved by `distance` of its length in a random direction.

    Args:
        distance: Distance relative to the length of a vector.
        vectors: `[..., dim]` float32.

    Yields:
        Arrays of the same shape.
    """
    generator = np.random.default_rng(1)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    for _ in range(_DRAWS):
        directions = generator.standard_normal(vectors.shape)
        directions *= distance * lengths / np.linalg.norm(directions, axis=-1, keepdims=True)
        yield (vectors + directions).astype(np.float32)


def rounding_of_scores(dim: int) -> float:
    """Returns how far apart two inner products of the same unit vectors may be, as sums of `dim` products.

    Args:
        dim: Width of a vector.

    Returns:
        The largest difference by rounding.
    """
    return dim * _EPSILON


def token_spread(ask: Ask, vectors: np.ndarray, moved: Iterator[np.ndarray]) -> float:
    """Returns how far the score of any token moved, over all moved vectors.

    Args:
        ask: Function that returns token hits.
        vectors: `[queries, length, dim]`.
        moved: The same vectors, moved a little.

    Returns:
        The largest difference between two scores of the same token.
    """
    expected = _scores_of_tokens(ask(vectors))
    worst = 0.0
    for other in moved:
        found = _scores_of_tokens(ask(other))
        worst = max(worst, *(abs(found[hit] - expected[hit]) for hit in found.keys() & expected.keys()), 0.0)
    return worst


@dataclasses.dataclass(frozen=True)
class Steadiness:
    """The effect of moved vectors on rankings.

    Attributes:
        tolerance: How far the score of a document may be from the recorded one.
        queries: `[queries]` bool, which queries can be checked with it. The others are at an edge of the
            index, such as between two leaves, where the last bit decides which tokens are scored.
    """

    tolerance: float
    queries: np.ndarray


def steadiness_of_rankings(
    ask: Ask, vectors: np.ndarray, moved: Iterator[np.ndarray], spread_of_tokens: float
) -> Steadiness:
    """Measures how far rankings move.

    Args:
        ask: Function that returns `document_ids` and `scores`.
        vectors: `[queries, length, dim]`.
        moved: The same vectors, moved a little.
        spread_of_tokens: How far the scores of tokens move. The score of a document is a mean of them.

    Returns:
        How far a score may move, and which queries can be checked with it.
    """
    expected = ask(vectors)
    answers = [ask(other) for other in moved]
    count, dim = len(vectors), vectors.shape[-1]
    spreads = np.array(
        [max(_ranking_spread(expected, answer, query) for answer in answers) for query in range(count)]
    )
    calm = spreads <= _EDGE * max(float(np.median(spreads)), spread_of_tokens, rounding_of_scores(dim))
    tolerance = rounding_of_scores(dim) + max(_MARGIN * float(spreads[calm].max()), spread_of_tokens)
    steady = calm & [
        not any(differences(_row(expected, query, tolerance), _outputs(answer, query)) for answer in answers)
        for query in range(count)
    ]
    if not steady.any():  # At least one answer must be checked, even if the last bit may change it.
        steady[np.argmin(spreads)] = True
    return Steadiness(tolerance, steady)


def slack(dim: int, spread: float) -> float:
    """Returns the tolerance that follows from a measured spread of scores.

    Args:
        dim: Width of a vector.
        spread: How far scores moved when vectors were moved by their rounding.

    Returns:
        The largest difference between two scores that count as equal.
    """
    return rounding_of_scores(dim) + _MARGIN * spread


def _scores_of_tokens(hits: Answer) -> dict[tuple[int, int, int], float]:
    """Returns scores by query, position in it, and retrieved token."""
    is_hit = hits["documents"] >= 0
    queries, positions, _ = np.nonzero(is_hit)
    names = (queries.tolist(), positions.tolist(), hits["token_ids"][is_hit].tolist())
    return dict(zip(zip(*names, strict=True), hits["scores"][is_hit].tolist(), strict=True))


def _ranking_spread(expected: Answer, answer: Answer, query: int) -> float:
    left, right = (
        dict(zip(found["document_ids"][query], found["scores"][query].tolist(), strict=True))
        for found in (expected, answer)
    )
    return max((abs(left[name] - right[name]) for name in (left.keys() & right.keys()) - {b""}), default=0.0)


def _outputs(answer: Answer, query: int) -> dict[str, np.ndarray]:
    return {name: array[query : query + 1] for name, array in answer.items()}


def _row(answer: Answer, query: int, tolerance: float) -> ReferenceCase:
    return ReferenceCase("search", {}, _outputs(answer, query), {"scores": tolerance})
