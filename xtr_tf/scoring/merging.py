"""Merges the token hits of several partitions into the result of one index over all of their tokens.

Every partition returns its best k' tokens per query token. The best k' of all of them are those that one big
index would return, and so are the cut-offs. Imputation needs the cut-offs, and a merge of document scores
could not know them. Scores come from `xtr_tf.scoring.reference`. Knows nothing about servers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xtr_tf.scoring.reference import (
    Ranking,
    maxima_of_hits,
    missing_similarities,
    rank_documents,
    row_cutoffs,
    xtr_scores,
)


@dataclasses.dataclass(frozen=True)
class PartitionHits:
    """The hits of one partition for one query.

    Attributes:
        scores: `[rows, columns]` float32, one row per query token.
        documents: `[rows, columns]` integers, positions among the candidates of the query; -1 for no hit.
        num_candidates: Number of documents with a hit. Their positions follow the order of the partition.
        token_ids: `[rows, columns]` integers, token ordinals in the partition; None if they are not needed.
    """

    scores: np.ndarray
    documents: np.ndarray
    num_candidates: int
    token_ids: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How one query is scored.

    Attributes:
        k_prime: Document tokens that each query token retrieves.
        top_k: Documents to return.
        imputation: How m_i is chosen.
        constant: m_i under `constant`.
        min_score: Documents with a lower score are not returned.
        weights: `[rows]`, the weight of each query token; equal weights if None.
    """

    k_prime: int
    top_k: int
    imputation: str = "top_k_prime"
    constant: float = 0.0
    min_score: float = -np.inf
    weights: np.ndarray | None = None


class MergedHits:
    """The best hits of all partitions for one query.

    Args:
        parts: The hits of every partition, in the order of their documents.
        k_prime: Hits per query token.

    Attributes:
        scores: `[rows, k']`, descending, `-inf` for no hit.
        documents: `[rows, k']`, positions among the candidates of all partitions, partition after partition;
            -1 for no hit.
        starts: `[partitions + 1]`, the position of the first candidate of each partition.
    """

    def __init__(self, parts: Sequence[PartitionHits], k_prime: int) -> None:
        self.starts = np.concatenate([[0], np.cumsum([part.num_candidates for part in parts])])
        documents = np.concatenate(
            [
                np.where(part.documents >= 0, part.documents + start, -1)
                for part, start in zip(parts, self.starts.tolist(), strict=False)
            ],
            axis=1,
        )
        scores = np.concatenate([part.scores for part in parts], axis=1)
        scores = np.where(documents >= 0, scores, -np.inf)
        # Equal hits are in the order of partitions, and within a partition in its own order.
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k_prime]
        self.scores = np.take_along_axis(scores, order, axis=1)
        self.documents = np.take_along_axis(documents, order, axis=1)
        self._order, self._parts = order, parts

    def rank(self, scoring: Scoring) -> Ranking:
        """Ranks the candidates by f_XTR' of their hits.

        Args:
            scoring: How the query is scored.

        Returns:
            `[1, top_k]`; ordinals are positions among the candidates.
        """
        maxima = maxima_of_hits(self.scores, self.documents, int(self.starts[-1]))
        totals = xtr_scores(
            maxima,
            maxima > -np.inf,
            self.cutoffs,
            imputation=scoring.imputation,
            constant=scoring.constant,
            weights=scoring.weights,
        )
        ranked = rank_documents(totals, scoring.top_k)
        kept = ranked.scores >= scoring.min_score
        return Ranking(np.where(kept, ranked.ordinals, -1), np.where(kept, ranked.scores, -np.inf))

    @property
    def cutoffs(self) -> np.ndarray:
        """`[rows]`, the score of the last hit of each query token."""
        return row_cutoffs(self.scores, self.documents >= 0)

    def owners(self, positions: np.ndarray) -> np.ndarray:
        """Returns the partitions of candidates.

        Args:
            positions: Positions among the candidates of all partitions.

        Returns:
            The number of each candidate's partition, from 0, in the shape of `positions`.
        """
        return np.searchsorted(self.starts, positions, side="right") - 1

    def align(self, positions: np.ndarray, scoring: Scoring) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which token of a document answered which query token.

        Args:
            positions: `[documents]`, positions among the candidates.
            scoring: How the query is scored, for the imputation.

        Returns:
            Three arrays `[documents, rows]`: token ordinals in the partition of the document, -1 where
            nothing was retrieved; similarities, or m_i where nothing was retrieved; and whether something was
            retrieved.
        """
        token_ids = np.concatenate([part.token_ids for part in self._parts], axis=1)
        token_ids = np.take_along_axis(token_ids, self._order, axis=1)
        missing = missing_similarities(self.cutoffs, scoring.imputation, scoring.constant)
        hit = self.documents[np.newaxis] == np.asarray(positions)[:, np.newaxis, np.newaxis]
        retrieved = hit.any(axis=2)
        # Hits are in descending order, so the first is the best.
        best = hit.argmax(axis=2)
        rows = np.arange(len(self.scores))
        tokens = np.where(retrieved, token_ids[rows, best], -1)
        return tokens, np.where(retrieved, self.scores[rows, best], missing), retrieved
