"""How a model retrieves tokens: the paper's analysis, by exact search of a sample of queries.

Measures which tokens are found (of gold documents, of the same piece), with which similarities, and how k'
and the imputation of missing similarities change the ranking. Knows nothing about how a report shows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.evaluation.exact import ExactRetriever, QueryBlock, empty_ranking, fill_ranking
from xtr_tf.evaluation.metrics import measure
from xtr_tf.evaluation.run import Run
from xtr_tf.vectors.query_encoder import EncodedQuery

#: Values of k' to compare, as far as the corpus is large enough for them to differ.
K_PRIMES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 40_000)
#: The rows of the paper's table of imputations: the key in a report, then one of
#: `xtr_tf.config.retrieval.IMPUTATIONS` and its constant.
COMPARED_IMPUTATIONS: Mapping[str, tuple[str, float]] = {
    "none": ("none", 0.0),
    "0.0": ("zero", 0.0),
    "0.2": ("constant", 0.2),
    "top_k_prime": ("top_k_prime", 0.0),
}
SWEEP_METRICS = ("nDCG@10", "MRR@10", "Recall@100")
# Beyond this share of all tokens, a query token has retrieved nearly every document.
_LARGEST_SHARE = 0.05
_RANKS = 100
_DEPTH = 100
_BINS = 40


@dataclasses.dataclass(frozen=True)
class TokenAnalysis:
    """The result of the analysis. Probabilities and metrics are in [0, 1].

    Attributes:
        queries: Number of queries.
        query_tokens: Number of their tokens.
        gold_probability: `[ranks]`, that the token at rank k (from 1) belongs to a gold document.
        lexical_probability: `[ranks]`, that it is the same piece as its query token.
        histogram_edges: `[bins + 1]` similarities.
        gold_density: `[bins]`, of the similarities of retrieved tokens of gold documents.
        other_density: `[bins]`, of those of other documents.
        k_prime_metrics: Metrics of f_XTR' by k'.
        colbert_metrics: Metrics of f_ColBERT.
        imputation_metrics: Metrics of f_XTR' at `k_prime`, by imputation.
        k_prime: The k' of the histogram, the imputations and the costs.
        cost: Means of n, m, d, r and candidates, and the operations that the formulas give for them.
    """

    queries: int
    query_tokens: int
    gold_probability: list[float]
    lexical_probability: list[float]
    histogram_edges: list[float]
    gold_density: list[float]
    other_density: list[float]
    k_prime_metrics: Mapping[int, Mapping[str, float]]
    colbert_metrics: Mapping[str, float]
    imputation_metrics: Mapping[str, Mapping[str, float]]
    k_prime: int
    cost: Mapping[str, float]


def analyse_tokens(
    retriever: ExactRetriever, dataset: Dataset, queries: Sequence[EncodedQuery], k_prime: int
) -> TokenAnalysis:
    """Analyses the retrieval of a dataset's queries.

    Args:
        retriever: Retriever over the dataset's corpus, with pieces.
        dataset: A dataset with judgements, and only the queries of the sample.
        queries: Its queries, encoded, with pieces.
        k_prime: Tokens that each query token retrieves.

    Returns:
        Shares by rank, histograms, and operations per query.
    """
    analyser = _TokenAnalyser(retriever, dataset, queries, k_prime)
    for block in retriever.blocks(queries):
        analyser.add(block)
    return analyser.result()


class _TokenAnalyser:
    """Adds up counts over blocks of queries."""

    def __init__(
        self, retriever: ExactRetriever, dataset: Dataset, queries: Sequence[EncodedQuery], k_prime: int
    ) -> None:
        corpus = retriever.corpus
        self._corpus = corpus
        self._dataset = dataset
        self._queries = queries
        self._document_of_token = corpus.document_of_token
        self._k_prime = min(k_prime, corpus.num_tokens)
        ordinal_of = {document.id: ordinal for ordinal, document in enumerate(corpus.documents)}
        self._gold = [
            [ordinal_of[key] for key, grade in grades.items() if grade > 0 and key in ordinal_of]
            for grades in (dataset.judgements[query.id] for query in dataset.queries)
        ]
        self._k_primes = [k for k in K_PRIMES if k <= _LARGEST_SHARE * corpus.num_tokens] or [self._k_prime]
        variants: list[int | str] = [*self._k_primes, *COMPARED_IMPUTATIONS, "colbert"]
        self._rankings = {variant: empty_ranking(len(queries), _DEPTH) for variant in variants}
        ranks = min(_RANKS, self._k_prime)
        self._rows = 0
        self._gold_hits, self._lexical_hits = np.zeros(ranks), np.zeros(ranks)
        self._edges = np.linspace(-1, 1, 2 * _BINS + 1)
        self._gold_counts, self._other_counts = np.zeros(2 * _BINS), np.zeros(2 * _BINS)
        self._candidates: list[int] = []
        self._retrieved: list[float] = []

    def add(self, block: QueryBlock) -> None:
        """Adds the tokens of some queries."""
        tokens, scores = block.similarities.top_tokens(max(self._k_prime, *self._k_primes))
        self._count_tokens(block, tokens[:, : self._k_prime], scores[:, : self._k_prime])
        for k in self._k_primes:
            self._rank(k, block, block.xtr_scores(scores[:, k - 1]))
        for key, (imputation, constant) in COMPARED_IMPUTATIONS.items():
            cutoffs = scores[:, self._k_prime - 1]
            self._rank(key, block, block.xtr_scores(cutoffs, imputation, constant))
        self._rank("colbert", block, block.colbert_scores())

    def result(self) -> TokenAnalysis:
        """Returns the counts as shares."""
        bins = np.flatnonzero(self._gold_counts + self._other_counts)
        first, last = (bins[0], bins[-1] + 1) if len(bins) else (0, 2 * _BINS)
        return TokenAnalysis(
            queries=len(self._dataset.queries),
            query_tokens=self._rows,
            gold_probability=(self._gold_hits / max(self._rows, 1)).tolist(),
            lexical_probability=(self._lexical_hits / max(self._rows, 1)).tolist(),
            histogram_edges=self._edges[first : last + 1].tolist(),
            gold_density=self._density(self._gold_counts)[first:last].tolist(),
            other_density=self._density(self._other_counts)[first:last].tolist(),
            k_prime_metrics={k: self._metrics(k) for k in self._k_primes},
            colbert_metrics=self._metrics("colbert"),
            imputation_metrics={key: self._metrics(key) for key in COMPARED_IMPUTATIONS},
            k_prime=self._k_prime,
            cost=self._cost(),
        )

    def _count_tokens(self, block: QueryBlock, tokens: np.ndarray, scores: np.ndarray) -> None:
        assert self._corpus.pieces is not None
        documents = self._document_of_token[tokens]
        ranks = len(self._gold_hits)
        for query, start, length in zip(block.queries, block.starts, block.lengths, strict=True):
            rows = slice(start, start + length)
            pieces = self._queries[query].pieces
            assert pieces is not None
            gold = np.isin(documents[rows], self._gold[query])
            same = self._corpus.pieces[tokens[rows, :ranks]] == pieces[:, np.newaxis]
            self._gold_hits += gold[:, :ranks].sum(axis=0)
            self._lexical_hits += same.sum(axis=0)
            # Vectors of short documents may be longer than 1; their similarities count in the last bin.
            clipped = np.clip(scores[rows], -1, 1)
            self._gold_counts += np.histogram(clipped[gold], self._edges)[0]
            self._other_counts += np.histogram(clipped[~gold], self._edges)[0]
            candidates = len(np.unique(documents[rows]))
            self._candidates.append(candidates)
            self._retrieved.append(documents[rows].size / candidates)
            self._rows += int(length)

    def _rank(self, variant: int | str, block: QueryBlock, scores: np.ndarray) -> None:
        fill_ranking(self._rankings[variant], block.queries, scores)

    def _metrics(self, variant: int | str) -> dict[str, float]:
        ids = [query.id for query in self._dataset.queries]
        run = Run.from_arrays(str(variant), ids, self._corpus.document_ids, *self._rankings[variant])
        values = measure(run, self._dataset.judgements, ids, SWEEP_METRICS)
        return {name: float(of_queries.mean()) for name, of_queries in values.items()}

    def _density(self, counts: np.ndarray) -> np.ndarray:
        return counts / max(counts.sum(), 1) / np.diff(self._edges)

    def _cost(self) -> dict[str, float]:
        lengths = [len(query.vectors) for query in self._queries if len(query.vectors)]
        query_tokens = float(np.mean(lengths)) if lengths else 0.0
        document_tokens = float(np.diff(self._corpus.offsets).mean())
        dim = float(self._corpus.vectors.shape[1])
        retrieved = float(np.mean(self._retrieved)) if self._retrieved else 0.0
        colbert = colbert_flops(query_tokens, self._k_prime, document_tokens, dim)
        xtr = xtr_flops(query_tokens, self._k_prime, retrieved)
        return {
            "query_tokens": query_tokens,
            "document_tokens": document_tokens,
            "dim": dim,
            "candidates": float(np.mean(self._candidates)) if self._candidates else 0.0,
            "retrieved_tokens": retrieved,
            "colbert_flops": colbert,
            "xtr_flops": xtr,
            "ratio": colbert / xtr if xtr else 0.0,
            "gathered_bytes": gathered_bytes(query_tokens, self._k_prime, document_tokens, dim),
        }


def colbert_flops(query_tokens: float, k_prime: float, document_tokens: float, dim: float) -> float:
    """Operations of f_ColBERT: n^2 k' (2 m d + m + 1), which compares every pair of tokens again.

    Args:
        query_tokens: n.
        k_prime: k'.
        document_tokens: m, the mean length of a document.
        dim: d, the width of a token vector.

    Returns:
        Operations per query.
    """
    return query_tokens**2 * k_prime * (2 * document_tokens * dim + document_tokens + 1)


def xtr_flops(query_tokens: float, k_prime: float, retrieved_tokens: float) -> float:
    """Operations of f_XTR': n^2 k' (r + 1), which uses the similarities that the search found.

    Args:
        query_tokens: n.
        k_prime: k'.
        retrieved_tokens: r, the mean number of tokens retrieved of a candidate.

    Returns:
        Operations per query.
    """
    return query_tokens**2 * k_prime * (retrieved_tokens + 1)


def gathered_bytes(query_tokens: float, k_prime: float, document_tokens: float, dim: float) -> float:
    """Bytes that f_ColBERT reads per query and f_XTR' does not: float32 vectors of n k' documents.

    Args:
        query_tokens: n, tokens of a query.
        k_prime: k', tokens that each of them retrieves.
        document_tokens: m, tokens of a document.
        dim: d, the width of a token vector.

    Returns:
        Bytes.

    Example:
        >>> gathered_bytes(16, 1_000, 55, 128) / 1e6  # the paper's 450 MB
        450.56
    """
    return 4 * query_tokens * k_prime * document_tokens * dim
