"""Exact retrieval of whole query sets from tokens in memory, under both scoring functions at once.

f_XTR' and f_ColBERT share one matrix of similarities, so comparing them costs little more than one of them.
The functions themselves are in `scoring.reference`; this file calls them within bounded memory. Knows nothing
about TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.progress import track
from xtr_tf.scoring.fusion_reference import fuse
from xtr_tf.scoring.reference import Ranking, colbert_scores, rank_documents, xtr_scores
from xtr_tf.vectors.query_encoder import EncodedQuery

# Similarities in memory at once: 256 MiB.
_MAX_SIMILARITIES = 1 << 26


class ExactRetriever:
    """Ranks the documents of a corpus without any approximation.

    Args:
        corpus: The corpus to search.

    Example:
        >>> xtr, colbert = ExactRetriever(corpus).search(encoder.encode_queries(["highest peak"]), 1000, 100)
        >>> corpus.documents[xtr.ordinals[0, 0]].title
        'Mount Everest'
    """

    def __init__(self, corpus: CorpusTokens) -> None:
        self.corpus = corpus

    def search(
        self, queries: Sequence[EncodedQuery], k_prime: int, depth: int, hybrid: Hybrid | None = None
    ) -> tuple[Ranking, ...]:
        """Ranks under f_XTR', under f_ColBERT and, if asked for, by f_XTR' and BM25 together.

        Args:
            queries: Encoded queries; one without tokens finds nothing.
            k_prime: Tokens that each query token retrieves under f_XTR'.
            depth: Documents to rank per query.
            hybrid: BM25, for a third ranking.

        Returns:
            One ranking per scoring function, in this order.
        """
        rankings = tuple(empty_ranking(len(queries), depth) for _ in range(3 if hybrid else 2))
        for block in self.blocks(queries):
            cutoffs = block.similarities.cutoffs(k_prime)
            xtr = block.xtr_scores(cutoffs)
            fill_ranking(rankings[0], block.queries, xtr)
            fill_ranking(rankings[1], block.queries, block.colbert_scores())
            if hybrid:
                lexical = np.stack([hybrid.scores(query) for query in block.queries.tolist()])
                fused = fuse(xtr, lexical, block.means(cutoffs), hybrid.alpha)
                fill_ranking(rankings[2], block.queries, fused)
        return rankings

    def blocks(self, queries: Sequence[EncodedQuery]) -> Iterator[QueryBlock]:
        """Yields the similarities of all queries, as many queries at once as memory allows.

        A block is valid only until the next one is requested, because they share memory.
        """
        lengths = [len(query.vectors) for query in queries]
        rows = max(_MAX_SIMILARITIES // self.corpus.num_tokens, *lengths, 1)
        buffer = np.empty((rows, self.corpus.num_tokens), np.float32)
        group: list[int] = []
        with track("exact search", len(queries), "queries") as progress:
            for query, length in enumerate(lengths):
                if sum(lengths[other] for other in group) + length > rows:
                    yield self._block(queries, group, buffer)
                    progress.update(done=query)
                    group = []
                if length:
                    group.append(query)
            if group:
                yield self._block(queries, group, buffer)

    def _block(self, queries: Sequence[EncodedQuery], group: list[int], buffer: np.ndarray) -> QueryBlock:
        vectors = [queries[query].vectors for query in group]
        starts = np.cumsum([0, *(len(tokens) for tokens in vectors[:-1])])
        similarities = Similarities(self.corpus, np.concatenate(vectors), buffer)
        weights = np.concatenate([queries[query].token_weights for query in group])
        return QueryBlock(np.array(group), starts, similarities, weights)


class Hybrid(NamedTuple):
    """BM25 that is fused with f_XTR'.

    Attributes:
        scores: Returns a query's scores with all documents, `[documents]`, from its number.
        alpha: Weight of these scores.
    """

    scores: Callable[[int], np.ndarray]
    alpha: float


class QueryBlock(NamedTuple):
    """Some queries whose similarities are in memory at the same time.

    Attributes:
        queries: `[count]` int64 numbers of the queries; those without tokens are in no block.
        starts: `[count]` int64, the first row of each.
        similarities: Rows are the tokens of these queries.
        weights: `[rows]` weights of the tokens.
    """

    queries: np.ndarray
    starts: np.ndarray
    similarities: Similarities
    weights: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """`[count]` int64, tokens of each query."""
        return np.diff(np.append(self.starts, len(self.similarities.values)))

    def xtr_scores(
        self, cutoffs: np.ndarray, imputation: str = "top_k_prime", constant: float = 0.0
    ) -> np.ndarray:
        """f_XTR' of all documents from the tokens that reach the cut-off.

        Args:
            cutoffs: `[rows]`, the k'-th similarity of each query token.
            imputation: One of `xtr_tf.config.retrieval.IMPUTATIONS`.
            constant: m_i under `constant`.

        Returns:
            `[count, documents]` float32, `-inf` for documents of which nothing was retrieved.
        """
        maxima = self.similarities.maxima
        retrieved = maxima >= cutoffs[:, np.newaxis]
        return xtr_scores(maxima, retrieved, cutoffs, self.starts, imputation, constant, self.weights)

    def means(self, values: np.ndarray) -> np.ndarray:
        """`[count]`, the weighted means of `[rows]` values."""
        return np.add.reduceat(values * self.weights, self.starts) / np.add.reduceat(
            self.weights, self.starts
        )

    def colbert_scores(self) -> np.ndarray:
        """f_ColBERT of all documents, `[count, documents]` float32."""
        return colbert_scores(self.similarities.maxima, self.starts, self.weights)


class Similarities:
    """Query tokens against all tokens of a corpus.

    Args:
        corpus: The document tokens.
        query_vectors: `[rows, dim]` float32.
        buffer: `[at least rows, tokens]` float32 to write the similarities to, so that this much memory is
            not allocated again for every block of queries.

    Attributes:
        values: `[rows, tokens]` float32.
        corpus: The document tokens.
    """

    def __init__(
        self, corpus: CorpusTokens, query_vectors: np.ndarray, buffer: np.ndarray | None = None
    ) -> None:
        self.corpus = corpus
        out = None if buffer is None else buffer[: len(query_vectors)]
        self.values = np.matmul(query_vectors, corpus.vectors.T, out=out)

    @cached_property
    def maxima(self) -> np.ndarray:
        """`[rows, documents]` float32, the best similarity in each document."""
        starts = self.corpus.offsets[:-1]
        return _by_rows(lambda rows: np.maximum.reduceat(rows, starts, axis=1), self.values)

    def top_tokens(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with the largest similarities.

        Args:
            count: Number of tokens; all if there are fewer.

        Returns:
            `[rows, count]` int64 token ordinals, with equal similarities in the order of the tokens, and
            `[rows, count]` float32 similarities, descending.
        """
        cutoffs = self.cutoffs(count)
        count = min(count, self.corpus.num_tokens)
        tokens = np.empty((len(cutoffs), count), np.int64)
        for row, cutoff in enumerate(cutoffs):
            candidates = np.flatnonzero(self.values[row] >= cutoff)
            best = np.argsort(-self.values[row, candidates], kind="stable")[:count]
            tokens[row] = candidates[best]
        return tokens, np.take_along_axis(self.values, tokens, axis=1)

    def cutoffs(self, k_prime: int) -> np.ndarray:
        """`[rows]` float32, the k'-th largest similarity, or the smallest if there are fewer."""
        count = min(k_prime, self.corpus.num_tokens)
        return _by_rows(
            lambda rows: np.array([_kth_largest(row, count) for row in rows], np.float32), self.values
        )


def empty_ranking(queries: int, depth: int) -> Ranking:
    """A ranking without results, to be filled.

    Args:
        queries: Number of rows.
        depth: Documents per row.

    Returns:
        `[queries, depth]` ordinals of -1 and scores of `-inf`.
    """
    return Ranking(np.full((queries, depth), -1), np.full((queries, depth), -np.inf, np.float32))


def fill_ranking(ranking: Ranking, queries: np.ndarray, scores: np.ndarray) -> None:
    """Puts the best documents of some queries into a ranking.

    Args:
        ranking: The ranking to fill.
        queries: `[count]` rows of it.
        scores: `[count, documents]` float, `-inf` for documents that are not results.
    """
    best = rank_documents(scores, ranking.ordinals.shape[1])
    depth = best.ordinals.shape[1]
    ranking.ordinals[queries, :depth] = best.ordinals
    ranking.scores[queries, :depth] = best.scores


def _by_rows(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """Applies a function to parts of the rows on all cores; NumPy releases the interpreter's lock."""
    parts = np.array_split(values, min(os.cpu_count() or 1, len(values)))
    with ThreadPoolExecutor(len(parts)) as pool:
        return np.concatenate(list(pool.map(function, parts)))


# The number of columns into which a row is folded to find its k-th largest value, in multiples of k.
_FOLDED_WIDTH = 3


def _kth_largest(values: np.ndarray, k: int) -> float:
    """The k-th largest of many more values than k, faster than by partitioning them all.

    The values are folded into columns. At least k values reach the k-th largest of the columns' maxima, and
    only a few more do.
    """
    width = min(_FOLDED_WIDTH * k, len(values))
    maxima = values[: len(values) // width * width].reshape(-1, width).max(axis=0)
    floor = np.sort(maxima)[-k]
    return float(np.sort(values[values >= floor])[-k])
