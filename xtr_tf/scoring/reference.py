"""f_XTR' and f_ColBERT in NumPy, for checks and rankings outside a graph. Must not import TensorFlow.

Exact evaluation, the development sets of training and the sharded client have the best similarity of every
query token with every document, `[rows, documents]`. Both functions need only that. Rows are the tokens of
the queries, query by query. `starts` has the first row of each query.

Example:
    >>> maxima = np.array([[0.9, 0.2], [0.4, 0.8]])  # one query of two tokens, two documents
    >>> xtr_scores(maxima, maxima >= 0.5, cutoffs=np.array([0.5, 0.6]))
    array([[0.75, 0.65]])
    >>> colbert_scores(maxima)
    array([[0.65, 0.5 ]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xtr_tf.config.retrieval import IMPUTATIONS
from xtr_tf.errors import require

_ONE_QUERY = (0,)


class Ranking(NamedTuple):
    """The documents of each query, best first.

    Attributes:
        ordinals: `[queries, depth]` int64, -1 where fewer documents were found.
        scores: `[queries, depth]` floats, `-inf` where fewer documents were found.
    """

    ordinals: np.ndarray
    scores: np.ndarray


def row_cutoffs(scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns the lowest valid score of each row of hits.

    Args:
        scores: `[rows, columns]` floats.
        valid: `[rows, columns]` bool.

    Returns:
        `[rows]`, 0 for a row that retrieved nothing.
    """
    lowest = np.where(valid, scores, np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def missing_similarities(
    cutoffs: np.ndarray, imputation: str = "top_k_prime", constant: float = 0.0
) -> np.ndarray:
    """Returns m_i: the similarity of a query token for a document of which it retrieved nothing.

    Args:
        cutoffs: `[rows]`, the score of the last token that each query token retrieved.
        imputation: One of `IMPUTATIONS`.
        constant: m_i under `constant`.

    Returns:
        `[rows]`; 0 under `none`, where nothing is imputed.

    Raises:
        InputError: If the imputation is unknown.
    """
    require(imputation in IMPUTATIONS, f"`imputation` must be one of {', '.join(IMPUTATIONS)}.", imputation)
    if imputation == "top_k_prime":
        return cutoffs
    return np.full_like(cutoffs, constant if imputation == "constant" else 0.0)


def maxima_of_hits(scores: np.ndarray, documents: np.ndarray, num_documents: int) -> np.ndarray:
    """Returns the best retrieved similarity of each query token in each document.

    Args:
        scores: `[rows, columns]` floats.
        documents: `[rows, columns]` integers below `num_documents`; negative where there is no hit.
        num_documents: Number of documents to score.

    Returns:
        `[rows, num_documents]` float64, `-inf` where nothing was retrieved.
    """
    maxima = np.full((len(scores), num_documents), -np.inf)
    rows, columns = np.nonzero(documents >= 0)
    np.maximum.at(maxima, (rows, documents[rows, columns]), scores[rows, columns])
    return maxima


def xtr_scores(
    maxima: np.ndarray,
    retrieved: np.ndarray,
    cutoffs: np.ndarray,
    starts: Sequence[int] | np.ndarray = _ONE_QUERY,
    imputation: str = "top_k_prime",
    constant: float = 0.0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Returns f_XTR' of every document.

    Args:
        maxima: `[rows, documents]`, the best similarity of each query token in each document.
        retrieved: `[rows, documents]` bool, whether the query token retrieved the token with that similarity.
        cutoffs: `[rows]`, the score of the last token that each query token retrieved.
        starts: `[queries]`, the first row of each query. Every query has at least one row. By default, all
            rows are one query.
        imputation: One of `IMPUTATIONS`.
        constant: m_i under `constant`.
        weights: `[rows]`, the weight of each query token; equal weights if None.

    Returns:
        `[queries, documents]`, `-inf` for documents of which nothing was retrieved.

    Raises:
        InputError: If the imputation is unknown.
    """
    weights = _weights(weights, maxima)
    missing = missing_similarities(cutoffs, imputation, constant)[:, np.newaxis]
    counted = np.add.reduceat(retrieved * weights, starts, axis=0)
    sums = np.add.reduceat(np.where(retrieved, maxima, missing) * weights, starts, axis=0)
    # Under `none`, where m_i is 0, the mean is over retrieved similarities only.
    divisors = counted if imputation == "none" else np.add.reduceat(weights, starts, axis=0)
    return np.where(counted > 0, sums / np.where(counted > 0, divisors, 1), -np.inf)


def colbert_scores(
    maxima: np.ndarray,
    starts: Sequence[int] | np.ndarray = _ONE_QUERY,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Returns f_ColBERT of every document.

    Args:
        maxima: `[tokens, documents]`, the best similarity of each query token in each document.
        starts: `[queries]`, the first row of each query. By default, all rows are one query.
        weights: `[tokens]`, the weight of each query token; equal weights if None.

    Returns:
        `[queries, documents]`.

    Example:
        >>> colbert_scores(np.array([[0.9, 0.2], [0.7, 0.4]]))
        array([[0.8, 0.3]])
    """
    weights = _weights(weights, maxima)
    return np.add.reduceat(maxima * weights, starts, axis=0) / np.add.reduceat(weights, starts, axis=0)


#: Weight of the frequencies in background texts, compared with those in the searched documents.
BACKGROUND_SHARE = 0.1


def idf_weights(
    frequencies: np.ndarray, num_documents: int, background: np.ndarray | None = None
) -> np.ndarray:
    """Returns weights of query tokens by the rarity of their pieces: `log(1 + (N - df + .5) / (df + .5))`.

    A piece that does not occur in the documents may still be common. It may be from another language, or of a
    kind that an encoder leaves out of an index. So `df` is a weighted mean of the frequency in the documents
    and the one that a broad background of texts predicts.

    Args:
        frequencies: Number of documents that have the piece, in any shape.
        num_documents: N, the number of all documents.
        background: Share of background texts that have the piece, in the same shape; None if it is not known.

    Returns:
        Positive floats in the same shape.
    """
    expected = np.asarray(frequencies, np.float64)
    if background is not None:
        expected = (expected + BACKGROUND_SHARE * num_documents * background) / (1 + BACKGROUND_SHARE)
    return np.log1p((num_documents - expected + 0.5) / (expected + 0.5))


def rank_documents(scores: np.ndarray, depth: int) -> Ranking:
    """Returns the best documents of each query. Documents with equal scores are in corpus order.

    Args:
        scores: `[queries, documents]`, `-inf` for documents that are not results.
        depth: Documents per query; all of them if there are fewer.

    Returns:
        `[queries, depth]` ordinals and scores.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    values = np.take_along_axis(scores, best, axis=1)
    return Ranking(np.where(np.isfinite(values), best, -1), values)


def _weights(weights: np.ndarray | None, maxima: np.ndarray) -> np.ndarray:
    """Returns `[rows, 1]` weights in the dtype of `maxima`, all 1 if `weights` is None."""
    weights = np.ones(len(maxima)) if weights is None else weights
    return weights.astype(maxima.dtype)[:, np.newaxis]
