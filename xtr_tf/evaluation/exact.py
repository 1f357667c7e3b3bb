"""Exact retrieval of whole query sets from an index in memory, under both scoring functions at once.

One matrix of similarities serves f_XTR' and f_ColBERT: comparing them costs little more than either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xtr_tf.evaluation.encoded import EncodedQuery, TokenIndex

# Similarities held at once: 256 MiB.
_MAX_SIMILARITIES = 1 << 26


class Ranking(NamedTuple):
    """Documents of each query, best first.

    Attributes:
        ordinals: `[queries, depth]` int64, -1 where fewer were found.
        scores: `[queries, depth]` float32, `-inf` where fewer were found.
    """

    ordinals: np.ndarray
    scores: np.ndarray


class QueryBlock(NamedTuple):
    """Some queries whose similarities are held at once.

    Attributes:
        queries: `[count]` int64, places of the queries among those given, without those that have no tokens.
        starts: `[count]` int64, the first row of each.
        similarities: Rows are the tokens of these queries.
    """

    queries: np.ndarray
    starts: np.ndarray
    similarities: Similarities

    @property
    def lengths(self) -> np.ndarray:
        """`[count]` int64, tokens of each query."""
        return np.diff(np.append(self.starts, len(self.similarities.values)))


class ExactRetriever:
    """Ranks the documents of an index without any approximation.

    Args:
        index: What is searched.

    Example:
        >>> xtr, colbert = ExactRetriever(index).search(encoder.encode_queries(["highest peak"]), 1000, 100)
        >>> index.documents[xtr.ordinals[0, 0]].title
        'Mount Everest'
    """

    def __init__(self, index: TokenIndex) -> None:
        self.index = index

    def search(self, queries: Sequence[EncodedQuery], k_prime: int, depth: int) -> tuple[Ranking, Ranking]:
        """Ranks under f_XTR' and under f_ColBERT.

        Args:
            queries: Encoded queries; one without tokens finds nothing.
            k_prime: Tokens that each query token retrieves under f_XTR'.
            depth: Documents of each query.
        """
        rankings = empty_ranking(len(queries), depth), empty_ranking(len(queries), depth)
        for block in self.blocks(queries):
            maxima = block.similarities.maxima
            cutoffs = block.similarities.cutoffs(k_prime)
            fill_ranking(rankings[0], block.queries, xtr_scores(block, cutoffs))
            fill_ranking(rankings[1], block.queries, np.add.reduceat(maxima, block.starts) / _column(block))
        return rankings

    def blocks(self, queries: Sequence[EncodedQuery]) -> Iterator[QueryBlock]:
        """Similarities of all queries, as many queries at once as memory allows.

        A block may be used until the next one is asked for: they share their memory.
        """
        lengths = [len(query.vectors) for query in queries]
        rows = max(_MAX_SIMILARITIES // self.index.num_tokens, *lengths, 1)
        buffer = np.empty((rows, self.index.num_tokens), np.float32)
        group: list[int] = []
        for place, length in enumerate(lengths):
            if sum(lengths[other] for other in group) + length > rows:
                yield self._block(queries, group, buffer)
                group = []
            if length:
                group.append(place)
        if group:
            yield self._block(queries, group, buffer)

    def _block(self, queries: Sequence[EncodedQuery], group: list[int], buffer: np.ndarray) -> QueryBlock:
        vectors = [queries[place].vectors for place in group]
        starts = np.cumsum([0, *(len(own) for own in vectors[:-1])])
        similarities = Similarities(self.index, np.concatenate(vectors), buffer)
        return QueryBlock(np.array(group), starts, similarities)


def xtr_scores(block: QueryBlock, cutoffs: np.ndarray, imputation: str = "top_k_prime") -> np.ndarray:
    """Scores of all documents from the tokens that reach the cut-off.

    Args:
        block: The queries.
        cutoffs: `[rows]`, the k'-th similarity of each query token.
        imputation: What a query token counts with for a document of which it retrieved nothing:
            `top_k_prime` (the cut-off), a number such as `0.2`, or `none` (the mean is over the others).

    Returns:
        `[queries, documents]` float32, `-inf` for documents of which nothing was retrieved.
    """
    maxima = block.similarities.maxima
    retrieved = maxima >= cutoffs[:, np.newaxis]
    missing = np.array(cutoffs[:, np.newaxis])
    if imputation != "top_k_prime":
        missing[:] = 0.0 if imputation == "none" else float(imputation)
    counts = np.add.reduceat(retrieved, block.starts, axis=0, dtype=np.int32)
    sums = np.add.reduceat(np.where(retrieved, maxima, missing), block.starts, axis=0)
    divisors = np.maximum(counts, 1) if imputation == "none" else _column(block)
    return np.where(counts > 0, sums / divisors, -np.inf).astype(np.float32)


def empty_ranking(queries: int, depth: int) -> Ranking:
    """A ranking without results, to be filled."""
    return Ranking(np.full((queries, depth), -1), np.full((queries, depth), -np.inf, np.float32))


def fill_ranking(ranking: Ranking, queries: np.ndarray, scores: np.ndarray) -> None:
    """Puts the best documents of some queries into a ranking, equal scores in the order of documents.

    Args:
        ranking: What is filled.
        queries: `[count]` rows of it.
        scores: `[count, documents]` float, `-inf` for documents that are no results.
    """
    depth = min(ranking.ordinals.shape[1], scores.shape[1])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    values = np.take_along_axis(scores, best, axis=1)
    ranking.ordinals[queries, :depth] = np.where(np.isfinite(values), best, -1)
    ranking.scores[queries, :depth] = values


def _column(block: QueryBlock) -> np.ndarray:
    return block.lengths[:, np.newaxis].astype(np.float32)


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
