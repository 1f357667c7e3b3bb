"""f_XTR' and f_ColBERT in NumPy, for whatever checks or ranks outside a graph. No TensorFlow here.

Exact evaluation, the development sets of training and the sharded client all have, for some queries,
the best similarity of every query token with every document, `[rows, documents]`. That is all that
both functions need. Rows are the tokens of one query after the other; `starts` says where each begins.

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
    """Documents of each query, best first.

    Attributes:
        ordinals: `[queries, depth]` int64, -1 where fewer were found.
        scores: `[queries, depth]` floats, `-inf` where fewer were found.
    """

    ordinals: np.ndarray
    scores: np.ndarray


def row_cutoffs(scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The lowest valid score of each row of hits, 0 for a row that retrieved nothing.

    Args:
        scores: `[rows, columns]` floats.
        valid: `[rows, columns]` bool.

    Returns:
        `[rows]`.
    """
    lowest = np.where(valid, scores, np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def missing_similarities(
    cutoffs: np.ndarray, imputation: str = "top_k_prime", constant: float = 0.0
) -> np.ndarray:
    """m_i: what a query token counts with for a document of which it retrieved nothing.

    Args:
        cutoffs: `[rows]`, the score of the last token that each query token retrieved.
        imputation: One of `IMPUTATIONS`.
        constant: m_i under `constant`.

    Returns:
        `[rows]`; 0 under `none`, where nothing is imputed.

    Raises:
        InputError: For an unknown imputation.
    """
    require(imputation in IMPUTATIONS, f"`imputation` must be one of {', '.join(IMPUTATIONS)}.", imputation)
    if imputation == "top_k_prime":
        return cutoffs
    return np.full_like(cutoffs, constant if imputation == "constant" else 0.0)


def maxima_of_hits(scores: np.ndarray, documents: np.ndarray, num_documents: int) -> np.ndarray:
    """The best retrieved similarity of each query token in each document.

    Args:
        scores: `[rows, columns]` floats.
        documents: `[rows, columns]` integers below `num_documents`; negative where there is no hit.
        num_documents: Documents to score.

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
    """f_XTR' of every document.

    Args:
        maxima: `[rows, documents]`, the best similarity of each query token in each document.
        retrieved: `[rows, documents]` bool, whether the query token retrieved that one.
        cutoffs: `[rows]`, the score of the last token that each query token retrieved.
        starts: `[queries]`, the first row of each query, which has at least one; one query by default.
        imputation: One of `IMPUTATIONS`.
        constant: m_i under `constant`.
        weights: `[rows]`, what each query token counts for; the same if None.

    Returns:
        `[queries, documents]`, `-inf` for documents of which nothing was retrieved.
    """
    weights = _weights(weights, maxima)
    missing = missing_similarities(cutoffs, imputation, constant)[:, np.newaxis]
    counted = np.add.reduceat(retrieved * weights, starts, axis=0)
    sums = np.add.reduceat(np.where(retrieved, maxima, missing) * weights, starts, axis=0)
    # Under `none`, where m_i is 0, the mean is over what was retrieved.
    divisors = counted if imputation == "none" else np.add.reduceat(weights, starts, axis=0)
    return np.where(counted > 0, sums / np.where(counted > 0, divisors, 1), -np.inf)


def colbert_scores(
    maxima: np.ndarray,
    starts: Sequence[int] | np.ndarray = _ONE_QUERY,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """f_ColBERT of every document.

    Args:
        maxima: `[tokens, documents]`, the best similarity of each query token in each document.
        starts: Where each query's tokens begin; one query if not given.
        weights: `[tokens]`, what query tokens count for; all the same if None.

    Returns:
        `[queries, documents]`.

    Example:
        >>> colbert_scores(np.array([[0.9, 0.2], [0.7, 0.4]]))
        array([[0.8, 0.3]])
    """
    weights = _weights(weights, maxima)
    return np.add.reduceat(maxima * weights, starts, axis=0) / np.add.reduceat(weights, starts, axis=0)


#: How much the frequencies of a background of texts count next to those of the documents searched.
BACKGROUND_SHARE = 0.1


def idf_weights(
    frequencies: np.ndarray, num_documents: int, background: np.ndarray | None = None
) -> np.ndarray:
    """What query tokens count for by how rare their pieces are: `log(1 + (N - df + .5) / (df + .5))`.

    A piece that the documents do not have may still be a common one, of another language or of the kind that
    an encoder leaves out of an index. So `df` is a mean with what a broad background of texts expects.

    Args:
        frequencies: Documents that have the piece, of any shape.
        num_documents: N, all of them.
        background: The share of background texts that have it, of the same shape; None if that is not known.

    Returns:
        Positive floats of the same shape.
    """
    expected = np.asarray(frequencies, np.float64)
    if background is not None:
        expected = (expected + BACKGROUND_SHARE * num_documents * background) / (1 + BACKGROUND_SHARE)
    return np.log1p((num_documents - expected + 0.5) / (expected + 0.5))


def rank_documents(scores: np.ndarray, depth: int) -> Ranking:
    """The best documents of each query, equal scores in the order of documents.

    Args:
        scores: `[queries, documents]`, `-inf` for documents that are not results.
        depth: Documents of each query; all of them if there are fewer.

    Returns:
        `[queries, depth]` ordinals and scores.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    values = np.take_along_axis(scores, best, axis=1)
    return Ranking(np.where(np.isfinite(values), best, -1), values)


def _weights(weights: np.ndarray | None, maxima: np.ndarray) -> np.ndarray:
    """`[rows, 1]` of the dtype of `maxima`."""
    weights = np.ones(len(maxima)) if weights is None else weights
    return weights.astype(maxima.dtype)[:, np.newaxis]
