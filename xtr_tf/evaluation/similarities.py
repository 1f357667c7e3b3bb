"""Every similarity between some query tokens and all document tokens: the ground truth of a search.

    f_ColBERT(Q, D) = 1/n * sum_i max_j P_ij
    f_XTR'(Q, D)    = 1/n * sum_i max(max_j P_ij, m_i)    for documents with any max_j P_ij >= m_i

where m_i is the k'-th largest similarity of query token i. The second line is the paper's formula: what
was not retrieved is below m_i, so that a document's best token was retrieved exactly if it reaches m_i.
(Tokens that tie with the k'-th all count as retrieved.)

NumPy alone, and slow: this is what fast searches are compared with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from xtr_tf.evaluation.token_index import TokenIndex

# Columns that a row is folded to when its k-th largest value is sought, in multiples of k.
_FOLDED_WIDTH = 3


class Similarities:
    """Query tokens against a whole index.

    Args:
        index: The document tokens.
        query_vectors: `[rows, dim]` float32.
        buffer: `[at least rows, tokens]` float32 to put the similarities into, which spares
            the machine from finding so much memory again for every block of queries.

    Attributes:
        values: `[rows, tokens]` float32.
        index: As given.
    """

    def __init__(
        self, index: TokenIndex, query_vectors: np.ndarray, buffer: np.ndarray | None = None
    ) -> None:
        self.index = index
        out = None if buffer is None else buffer[: len(query_vectors)]
        self.values = np.matmul(query_vectors, index.vectors.T, out=out)

    @cached_property
    def maxima(self) -> np.ndarray:
        """`[rows, documents]` float32, the best similarity of each document."""
        starts = self.index.offsets[:-1]
        return _by_rows(lambda rows: np.maximum.reduceat(rows, starts, axis=1), self.values)

    def top_tokens(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with the largest similarities.

        Args:
            count: How many; more than there are means all.

        Returns:
            `[rows, count]` int64 token ordinals, equal similarities in the order of the tokens, and
            `[rows, count]` float32 similarities, descending.
        """
        cutoffs = self.cutoffs(count)
        count = min(count, self.index.num_tokens)
        tokens = np.empty((len(cutoffs), count), np.int64)
        for row, cutoff in enumerate(cutoffs):
            candidates = np.flatnonzero(self.values[row] >= cutoff)
            best = np.argsort(-self.values[row, candidates], kind="stable")[:count]
            tokens[row] = candidates[best]
        return tokens, np.take_along_axis(self.values, tokens, axis=1)

    def cutoffs(self, k_prime: int) -> np.ndarray:
        """`[rows]` float32, m_i: the k'-th largest similarity, or the smallest if there are fewer."""
        count = min(k_prime, self.index.num_tokens)
        return _by_rows(
            lambda rows: np.array([_kth_largest(row, count) for row in rows], np.float32), self.values
        )


def _by_rows(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """Applies a function of rows to parts of them, on all cores: NumPy lets threads work side by side."""
    parts = np.array_split(values, min(os.cpu_count() or 1, len(values)))
    with ThreadPoolExecutor(len(parts)) as pool:
        return np.concatenate(list(pool.map(function, parts)))


def _kth_largest(values: np.ndarray, k: int) -> float:
    """The k-th largest of many more values than k, faster than by partitioning them all.

    The values are folded into columns: at least k of them reach the k-th largest maximum of a column,
    and few more do.
    """
    width = min(_FOLDED_WIDTH * k, len(values))
    maxima = values[: len(values) // width * width].reshape(-1, width).max(axis=0)
    floor = np.sort(maxima)[-k]
    return float(np.sort(values[values >= floor])[-k])
