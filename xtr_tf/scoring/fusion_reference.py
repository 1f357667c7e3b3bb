"""Hybrid scores in NumPy, for exact evaluations and for checks; `fusion.py` says what they are.

No TensorFlow here.
"""

from __future__ import annotations

import numpy as np

_RRF_CONSTANT, _RRF_DEPTH = 60, 1_000


def fuse(
    xtr: np.ndarray,
    lexical: np.ndarray,
    floor: np.ndarray,
    alpha: float,
    fusion: str = "weighted",
) -> np.ndarray:
    """Fuses the scores of queries with all documents.

    Args:
        xtr: `[queries, documents]`, `-inf` for documents of which nothing was retrieved.
        lexical: `[queries, documents]`, 0 for documents without a term of the query.
        floor: `[queries]`, f_XTR' of the former.
        alpha: From 0 to 1.
        fusion: One of `xtr_tf.config.retrieval.FUSIONS`.

    Returns:
        `[queries, documents]`, `-inf` for what is not a candidate.
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
        largest = lexical.max(axis=1, keepdims=True)
        share = np.divide(lexical, largest, out=np.zeros(lexical.shape), where=largest > 0)
        on_scale = floor + np.maximum(1 - floor, 0) * share
        fused = (1 - alpha) * np.where(retrieved, xtr, floor) + alpha * on_scale
    return np.where(candidates, fused, -np.inf)


def _reciprocal_ranks(scores: np.ndarray, found: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.where(found, scores, -np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[np.newaxis], axis=1)
    return np.where(found & (ranks <= _RRF_DEPTH), 1 / (_RRF_CONSTANT + ranks), 0.0)
