"""Hits and BM25 of partitions, merged, rank as those of all documents together."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from xtr_tf.scoring.fusion_reference import fuse
from xtr_tf.scoring.merging import MergedHits, PartitionHits, PartitionTerms, Scoring
from xtr_tf.scoring.reference import (
    maxima_of_hits,
    missing_similarities,
    rank_documents,
    row_cutoffs,
    xtr_scores,
)

ROWS, TOKENS, DOCUMENTS = 3, 900, 300
BOUNDS = (0, 40, 41, 190, DOCUMENTS)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Similarities `[rows, tokens]`, the document of each token, and `[documents]` BM25, 0 if not allowed."""

    similarities: np.ndarray
    owners: np.ndarray
    lexical: np.ndarray
    allowed: np.ndarray

    @classmethod
    def random(cls, seed: int, share_allowed: float) -> Corpus:
        rng = np.random.default_rng(seed)
        allowed = rng.random(DOCUMENTS) < share_allowed
        # Few distinct values, so that many scores are equal and the order of documents decides.
        similarities = rng.integers(-8, 9, (ROWS, TOKENS)) / 8
        lexical = np.where(rng.random(DOCUMENTS) < 0.6, rng.integers(0, 20, DOCUMENTS) / 2, 0)
        return cls(
            similarities, np.sort(rng.integers(0, DOCUMENTS, TOKENS)), np.where(allowed, lexical, 0), allowed
        )

    def hits(self, first: int, last: int, k_prime: int) -> tuple[np.ndarray, np.ndarray]:
        """The best k' tokens of allowed documents in a range, `[rows, k']`: similarities and documents."""
        kept = np.flatnonzero((self.owners >= first) & (self.owners < last) & self.allowed[self.owners])
        order = np.argsort(-self.similarities[:, kept], axis=1, kind="stable")[:, :k_prime]
        return np.take_along_axis(self.similarities[:, kept], order, axis=1), self.owners[kept][order]

    def partition(self, first: int, last: int, scoring: Scoring) -> tuple[PartitionHits, np.ndarray]:
        """What a partition answers, as candidates."""
        scores, documents = self.hits(first, last, scoring.k_prime)
        ordinals = np.unique(documents) - first
        own = self.lexical[first:last]
        others = own.copy()
        others[ordinals] = 0
        depth = PartitionTerms.depth(scoring.top_k, scoring.fusion)
        best = np.argsort(-others, kind="stable")[:depth]
        terms = PartitionTerms(
            np.append(own[ordinals], [0, 0]),
            np.where(others[best] > 0, best, -1),
            others[best],
            int(self.allowed[first:last].sum()),
        )
        hits = PartitionHits(scores, np.searchsorted(ordinals, documents - first), len(ordinals) + 2)
        hits, candidates = terms.add_to(hits, np.append(ordinals, [-1, -1]))
        return hits, candidates + first

    def expected(self, scoring: Scoring) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Documents, scores and f_XTR' of the best, from dense scores of all documents."""
        scores, documents = self.hits(0, DOCUMENTS, scoring.k_prime)
        maxima = maxima_of_hits(scores, documents, DOCUMENTS)
        cutoffs = row_cutoffs(scores, documents >= 0)
        imputed = {"imputation": scoring.imputation, "constant": scoring.constant}
        xtr = xtr_scores(maxima, maxima > -np.inf, cutoffs, weights=scoring.weights, **imputed)
        floor = np.average(missing_similarities(cutoffs, **imputed), weights=scoring.weights)
        fused = fuse(
            *(xtr, self.lexical[np.newaxis], np.array([floor]), scoring.alpha, scoring.fusion),
            int(self.allowed.sum()),
        )
        [ordinals], [values] = rank_documents(fused, scoring.top_k)
        found = (ordinals >= 0) & (values >= scoring.min_score)
        ordinals = ordinals[found]
        return ordinals, values[found], np.where(np.isfinite(xtr[0]), xtr[0], floor)[ordinals]


@pytest.mark.parametrize("imputation", ["top_k_prime", "zero", "constant", "none"])
@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("share_allowed", [1.0, 0.2, 0.02, 0.0])
def test_partitions_rank_as_one(imputation: str, fusion: str, share_allowed: float) -> None:
    seeds, alphas = itertools.count(), (0.1, 0.5, 0.9, 1.0)
    for alpha, k_prime, top_k in itertools.product(alphas, (1, 9, 400), (1, 10, DOCUMENTS)):
        seed = next(seeds)
        corpus = Corpus.random(seed, share_allowed)
        weights = np.random.default_rng(seed).uniform(0.5, 2, ROWS) if seed % 2 else None
        # A constant above most similarities: documents with hits may be worse than those without.
        scoring = Scoring(k_prime, top_k, imputation, 0.8, -np.inf, weights, alpha, fusion)
        ordinals, scores, xtr = corpus.expected(scoring)
        parts, candidates = zip(
            *(corpus.partition(*bounds, scoring) for bounds in itertools.pairwise(BOUNDS)), strict=True
        )
        ranked = MergedHits(parts, k_prime).rank(scoring)
        # Sums in another order may differ in the last bit, which decides between equal documents.
        np.testing.assert_allclose(ranked.scores, scores, rtol=1e-12)
        found = np.concatenate(candidates)[ranked.positions]
        np.testing.assert_array_equal(found, ordinals)
        np.testing.assert_allclose(ranked.xtr_scores, xtr, rtol=1e-12)
        np.testing.assert_array_equal(ranked.lexical_scores, corpus.lexical[ordinals])


def test_a_lowest_score_applies_to_fused_scores() -> None:
    corpus = Corpus.random(3, 1.0)
    scoring = Scoring(9, DOCUMENTS, alpha=0.5)
    parts = [corpus.partition(*bounds, scoring)[0] for bounds in itertools.pairwise(BOUNDS)]
    ranked = MergedHits(parts, 9).rank(scoring)
    lowest = float(ranked.scores[5])
    kept = MergedHits(parts, 9).rank(dataclasses.replace(scoring, min_score=lowest))
    np.testing.assert_array_equal(kept.scores, ranked.scores[ranked.scores >= lowest])
    assert len(kept.scores) < len(ranked.scores)
