"""Token hits of several partitions, merged to the answer that one index over all of their tokens would give.

Every partition gives its best k' tokens for every query token. The best k' of all of them are those of one
big index, and so are the cut-offs, which imputation needs and a merge of document scores could not know.
Scoring is `xtr_tf.scoring.reference`. Knows nothing of servers.
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
    """What a partition found for one query.

    Attributes:
        scores: `[rows, columns]` float32, a row for each query token.
        documents: `[rows, columns]` integers, positions among the query's candidates; -1 for no hit.
        num_candidates: Documents of which something was found, counted in the order of the partition.
        token_ids: `[rows, columns]` integers, token ordinals of the partition, if they are wanted.
    """

    scores: np.ndarray
    documents: np.ndarray
    num_candidates: int
    token_ids: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How one query is scored.

    Attributes:
        k_prime: Tokens that each query token retrieves.
        top_k: Documents returned.
        imputation: How what was not retrieved counts.
        constant: What it counts with under `constant`.
        min_score: Documents with a lower score are not returned.
        weights: `[rows]`, what each query token counts for; the same if None.
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
        parts: Of every partition, in the order of their documents.
        k_prime: Hits of a query token.

    Attributes:
        scores: `[rows, k']`, descending, `-inf` for none.
        documents: `[rows, k']`, positions among the candidates of all partitions, one after the other; -1
            for none.
        starts: `[partitions + 1]`, where the candidates of each partition begin.
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
        # Of equal hits the first partition's come first, and those of a partition in its own order.
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k_prime]
        self.scores = np.take_along_axis(scores, order, axis=1)
        self.documents = np.take_along_axis(documents, order, axis=1)
        self._order, self._parts = order, parts

    def rank(self, scoring: Scoring) -> Ranking:
        """f_XTR' over the hits, `[1, top_k]`; ordinals are positions among the candidates."""
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
        """`[rows]`, the score of the last hit."""
        return row_cutoffs(self.scores, self.documents >= 0)

    def owners(self, positions: np.ndarray) -> np.ndarray:
        """The partitions of candidates."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def align(self, positions: np.ndarray, scoring: Scoring) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which token of a document answered which query token.

        Args:
            positions: `[documents]`, candidates.
            scoring: What is imputed.

        Returns:
            `[documents, rows]` token ordinals of the documents' own partitions, -1 where nothing was found;
            similarities, or what was imputed; and whether something was found.
        """
        token_ids = np.concatenate([part.token_ids for part in self._parts], axis=1)
        token_ids = np.take_along_axis(token_ids, self._order, axis=1)
        missing = missing_similarities(self.cutoffs, scoring.imputation, scoring.constant)
        hit = self.documents[np.newaxis] == np.asarray(positions)[:, np.newaxis, np.newaxis]
        retrieved = hit.any(axis=2)
        # Hits are in descending order: the first is the best.
        best = hit.argmax(axis=2)
        rows = np.arange(len(self.scores))
        tokens = np.where(retrieved, token_ids[rows, best], -1)
        return tokens, np.where(retrieved, self.scores[rows, best], missing), retrieved
