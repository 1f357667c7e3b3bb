"""Hybrid scores in NumPy, for exact evaluation and for checks. `fusion.py` defines them.

Must not import TensorFlow.
"""

from __future__ import annotations

import numpy as np

_RRF_CONSTANT, _RRF_DEPTH = 60, 1_000
_SPREAD_DEPTH, _LEAST_SPREAD = 100, 1e-6


def fuse(
    xtr: np.ndarray,
    lexical: np.ndarray,
    floor: np.ndarray,
    alpha: float,
    fusion: str = "weighted",
    num_documents: int | None = None,
) -> np.ndarray:
    """Fuses the scores of queries for all documents.

    Args:
        xtr: `[queries, documents]`, `-inf` for documents of which nothing was retrieved.
        lexical: `[queries, documents]`, 0 for documents without a term of the query.
        floor: `[queries]`, f_XTR' of documents of which nothing was retrieved.
        alpha: Weight of BM25, from 0 to 1.
        fusion: One of `xtr_tf.config.retrieval.FUSIONS`.
        num_documents: Number of documents that a search may return, if others are left out or included. Those
            must not be candidates. By default the given ones.

    Returns:
        `[queries, documents]`, `-inf` for documents that are not candidates.
    """
    retrieved, matched = np.isfinite(xtr), lexical > 0
    candidates = retrieved & (alpha < 1) | matched & (alpha > 0)
    if alpha == 0:
        fused = xtr
    elif fusion == "rrf":
        fused = (1 - alpha) * _reciprocal_ranks(xtr, retrieved)
        fused = fused + alpha * _reciprocal_ranks(lexical, matched)
        candidates &= fused > 0
    else:
        floor = floor[:, np.newaxis]
        depth = min(_SPREAD_DEPTH, xtr.shape[1] if num_documents is None else num_documents)
        spread = np.maximum(_spread(np.maximum(xtr, floor), depth, floor), _LEAST_SPREAD)
        of_lexical = _spread(lexical, depth, np.zeros_like(floor))
        scale = np.divide(spread, of_lexical, out=np.zeros(spread.shape), where=of_lexical > 0)
        fused = (1 - alpha) * np.where(retrieved, xtr, floor) + alpha * (floor + scale * lexical)
    return np.where(candidates, fused, -np.inf)


def depth_of(fusion: str) -> int:
    """Returns how many of the best documents by each score affect the fused score of any document.

    Args:
        fusion: One of `xtr_tf.config.retrieval.FUSIONS`.

    Returns:
        Number of documents.
    """
    return _RRF_DEPTH if fusion == "rrf" else _SPREAD_DEPTH


def steepness(lexical: np.ndarray) -> float:
    """Returns how far BM25's part of a weighted score moves, relative to f_XTR'.

    The scale of BM25 is the spread of f_XTR' divided by that of BM25. If no f_XTR' moves by more than `e`,
    their spread does not move further either. Then a fused score moves by at most
    `e * (1 + alpha * steepness)`.

    Args:
        lexical: `[queries, documents]`, BM25 scores.

    Returns:
        The largest BM25 score in units of the spread of the best, over all queries; 0 if there is no spread.
    """
    spread = _spread(lexical, min(_SPREAD_DEPTH, lexical.shape[1]), np.zeros((len(lexical), 1)))[:, 0]
    largest = lexical.max(axis=1, initial=0)
    return float(np.max(largest[spread > 0] / spread[spread > 0], initial=0))


def _spread(scores: np.ndarray, depth: int, lowest: np.ndarray) -> np.ndarray:
    """Returns `[queries, 1]`, the standard deviation of the `depth` best scores of each query.

    Documents that are left out have the `lowest` score of the query, `[queries, 1]`.
    """
    if not depth:
        return np.zeros_like(lowest)
    left_out = np.repeat(lowest, max(depth - scores.shape[1], 0), axis=1)
    scores = np.concatenate([scores, left_out], axis=1, dtype=np.float64)
    best = np.partition(scores, scores.shape[1] - depth, axis=1)[:, -depth:]
    return np.std(best, axis=1, keepdims=True)


def _reciprocal_ranks(scores: np.ndarray, found: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.where(found, scores, -np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[np.newaxis], axis=1)
    return np.where(found & (ranks <= _RRF_DEPTH), 1 / (_RRF_CONSTANT + ranks), 0.0)
