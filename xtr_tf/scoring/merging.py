"""Merges the token hits of several partitions into the result of one index over all of their tokens.

Every partition returns its best k' tokens per query token. The best k' of all of them are those that one big
index would return, and so are the cut-offs. Imputation needs the cut-offs, and a merge of document scores
could not know them. For hybrid search, a partition also returns BM25 of the documents of its hits, and its
best other documents by BM25. No further document can be in the result, whichever hits remain after the merge.
Scores come from `xtr_tf.scoring.reference` and `fusion_reference`. Knows nothing about servers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xtr_tf.scoring.fusion_reference import depth_of, fuse
from xtr_tf.scoring.reference import (
    maxima_of_hits,
    missing_similarities,
    rank_documents,
    row_cutoffs,
    xtr_scores,
)

#: Outputs of a partition that a merge needs: token hits with their documents, and BM25.
OF_HITS = ("scores", "documents", "ordinals")
OF_TERMS = ("lexical_scores", "other_ordinals", "other_scores", "allowed_documents")


@dataclasses.dataclass(frozen=True)
class PartitionHits:
    """The hits of one partition for one query.

    Attributes:
        scores: `[rows, columns]` float32, one row per query token.
        documents: `[rows, columns]` integers, positions among the candidates of the query; -1 for no hit.
        num_candidates: Number of candidates. Their positions follow the order of the partition.
        token_ids: `[rows, columns]` integers, token ordinals in the partition; None if they are not needed.
        lexical: `[candidates]`, BM25 of the candidates; None if it is not needed.
        num_allowed: Number of documents that the filter of the query allows, if there is `lexical`.
    """

    scores: np.ndarray
    documents: np.ndarray
    num_candidates: int
    token_ids: np.ndarray | None = None
    lexical: np.ndarray | None = None
    num_allowed: int = 0


@dataclasses.dataclass(frozen=True)
class PartitionTerms:
    """BM25 of one partition for one query.

    Attributes:
        of_hits: `[candidates]`, BM25 of the documents with a hit.
        ordinals: `[others]` integers, the best other documents, each with a score above 0; -1 for none.
        scores: `[others]`, their BM25.
        num_allowed: Number of documents that the filter of the query allows.
    """

    of_hits: np.ndarray
    ordinals: np.ndarray
    scores: np.ndarray
    num_allowed: int

    @staticmethod
    def depth(top_k: int, fusion: str) -> int:
        """Returns how many `ordinals` are needed.

        Args:
            top_k: Documents to return.
            fusion: How scores are fused.

        Returns:
            Number of documents per partition.
        """
        return max(top_k, depth_of(fusion))

    def add_to(self, hits: PartitionHits, ordinals: np.ndarray) -> tuple[PartitionHits, np.ndarray]:
        """Makes candidates of the documents that only BM25 found.

        Args:
            hits: The hits of the same query.
            ordinals: `[candidates]` ascending integers, the documents with a hit; then -1 for none.

        Returns:
            The hits with all candidates and their BM25, and the ordinals of these candidates, ascending.
        """
        with_hits, others = ordinals[ordinals >= 0], self.ordinals[self.ordinals >= 0]
        candidates = np.concatenate([with_hits, others])
        lexical = np.concatenate([self.of_hits[: len(with_hits)], self.scores[: len(others)]])
        order = np.argsort(candidates)
        # The last place is that of no document.
        places = np.full(len(candidates) + 1, -1)
        places[order] = np.arange(len(candidates))
        added = dataclasses.replace(
            hits,
            documents=places[hits.documents],
            num_candidates=len(candidates),
            lexical=lexical[order],
            num_allowed=self.num_allowed,
        )
        return added, candidates[order]


def partition_hits(
    answer: Mapping[str, np.ndarray], place: int, mask: np.ndarray
) -> tuple[PartitionHits, np.ndarray]:
    """Reads what a partition answered for one query.

    Args:
        answer: Outputs of `search_vectors_tokens` or `search_hybrid_tokens` by name: those of `OF_HITS`, with
            BM25 also those of `OF_TERMS`, and `token_ids` if they are needed.
        place: Number of the query in the answer.
        mask: `[length]` bool, which positions are tokens of the query.

    Returns:
        The hits, and the ordinals of the candidates in the partition.
    """
    ordinals = answer["ordinals"][place]
    hits = PartitionHits(
        answer["scores"][place][mask],
        answer["documents"][place][mask],
        len(ordinals),
        answer["token_ids"][place][mask] if "token_ids" in answer else None,
    )
    if "other_ordinals" not in answer:
        return hits, ordinals
    of_hits, others, scores, num_allowed = (answer[name][place] for name in OF_TERMS)
    return PartitionTerms(of_hits, others, scores, int(num_allowed)).add_to(hits, ordinals)


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
        alpha: Weight of BM25, from 0 to 1.
        fusion: How f_XTR' and BM25 are fused.
    """

    k_prime: int
    top_k: int
    imputation: str = "top_k_prime"
    constant: float = 0.0
    min_score: float = -np.inf
    weights: np.ndarray | None = None
    alpha: float = 0.0
    fusion: str = "weighted"


class RankedCandidates(NamedTuple):
    """The best candidates of one query, best first, `[found]` each.

    Attributes:
        positions: Positions among the candidates of all partitions.
        scores: The scores that rank them.
        xtr_scores: f_XTR', also of candidates without a hit.
        lexical_scores: BM25; 0 if `alpha` is 0.
    """

    positions: np.ndarray
    scores: np.ndarray
    xtr_scores: np.ndarray
    lexical_scores: np.ndarray


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
        lexical: `[candidates]`, BM25 of all candidates; None unless all partitions have it.
        num_allowed: Number of documents in all partitions that the filter of the query allows.
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
        of_parts = [part.lexical for part in parts if part.lexical is not None]
        self.lexical = np.concatenate(of_parts) if len(of_parts) == len(parts) else None
        self.num_allowed = sum(part.num_allowed for part in parts)

    def rank(self, scoring: Scoring) -> RankedCandidates:
        """Ranks the candidates by f_XTR' of their hits, with `alpha` fused with BM25.

        Args:
            scoring: How the query is scored. With `alpha`, all partitions must have `lexical`.

        Returns:
            The best candidates.
        """
        count = int(self.starts[-1])
        maxima = maxima_of_hits(self.scores, self.documents, count)
        xtr = xtr_scores(
            maxima,
            maxima > -np.inf,
            self.cutoffs,
            imputation=scoring.imputation,
            constant=scoring.constant,
            weights=scoring.weights,
        )
        floor = np.average(self._missing(scoring), weights=scoring.weights)
        fused, lexical = xtr, np.zeros((1, count))
        if scoring.alpha:
            assert self.lexical is not None
            lexical = self.lexical[np.newaxis]
            fused = fuse(xtr, lexical, np.array([floor]), scoring.alpha, scoring.fusion, self.num_allowed)
        [positions], [scores] = rank_documents(fused, scoring.top_k)
        found = (positions >= 0) & (scores >= scoring.min_score)
        positions, scores = positions[found], scores[found]
        of_found = xtr[0, positions]
        filled = np.where(np.isfinite(of_found), of_found, floor)
        return RankedCandidates(positions, scores, filled, lexical[0, positions])

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
        missing = self._missing(scoring)
        hit = self.documents[np.newaxis] == np.asarray(positions)[:, np.newaxis, np.newaxis]
        retrieved = hit.any(axis=2)
        # Hits are in descending order, so the first is the best.
        best = hit.argmax(axis=2)
        rows = np.arange(len(self.scores))
        tokens = np.where(retrieved, token_ids[rows, best], -1)
        return tokens, np.where(retrieved, self.scores[rows, best], missing), retrieved

    def _missing(self, scoring: Scoring) -> np.ndarray:
        """Returns m_i, `[rows]`."""
        return missing_similarities(self.cutoffs, scoring.imputation, scoring.constant)
