"""The paper's claims as comparisons of two token analyses. Knows nothing about models or drawing.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), sections 4 and 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xtr_tf.evaluation.token_analysis import TokenAnalysis

#: Ranks at which the shares of gold and of identical tokens are compared.
RANKS = (1, 2, 5, 10, 20, 50, 100)
#: Metrics of the imputation table.
METRICS = ("MRR@10", "Recall@100")
#: The least MRR@10 that counts as "clearly below", and the most that counts as a "small loss".
CLEARLY, SMALL_LOSS = 0.02, 0.02
#: The most that counts as "near zero", as a share of the same model's MRR@10 with imputation.
NEAR_ZERO = 0.1
#: The similarity from which on scores are "near the top".
NEAR_TOP = 0.8
#: The k' at which a model that saturates early has reached most of its quality.
EARLY_K_PRIME = 100


class Claim(NamedTuple):
    """One claim on one dataset.

    Attributes:
        statement: The claim, in a sentence.
        passed: Whether it holds here.
        evidence: The figures that decided it.
    """

    statement: str
    passed: bool
    evidence: str


def check_scoring(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    """Checks what the paper says about the ranking under f_XTR', at the k' of the analyses.

    Args:
        xtr: Analysis of the model trained with f_XTR.
        colbert: Analysis of the model trained with f_ColBERT by the same recipe.
    """
    yield from _imputation(xtr, colbert)
    yield from _against_colbert(xtr, colbert)


def check_retrieval(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    """Checks what the paper says about the tokens retrieved up to rank 100, and about other values of k'."""
    yield from _retrieved_tokens(xtr, colbert)
    yield _histogram(xtr, colbert)
    yield from _k_prime(xtr, colbert)


def _imputation(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    for metric in METRICS:
        none, zero, constant, top = (xtr.imputation_metrics[name][metric] for name in _imputations(xtr))
        yield Claim(
            f"XTR's imputations rank none < zero <= 0.2 <= top-k' in {metric}",
            none < zero <= constant <= top,
            f"{none:.3f}, {zero:.3f}, {constant:.3f}, {top:.3f}",
        )
    ours, theirs = (own.imputation_metrics["top_k_prime"]["MRR@10"] for own in (xtr, colbert))
    yield Claim(
        f"under f_XTR' the ColBERT-trained model is clearly below XTR (by {CLEARLY} MRR@10)",
        theirs <= ours - CLEARLY,
        f"{theirs:.3f} against {ours:.3f}",
    )
    without = colbert.imputation_metrics["none"]["MRR@10"]
    yield Claim(
        f"without imputation the ColBERT-trained model is near zero (below {NEAR_ZERO:.0%} of its own)",
        without <= NEAR_ZERO * theirs,
        f"MRR@10 {without:.3f} against {theirs:.3f}",
    )


def _retrieved_tokens(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    gold = _at_ranks(xtr.gold_probability), _at_ranks(colbert.gold_probability)
    yield Claim(
        "XTR retrieves tokens of gold documents more often at ranks 1 to 100",
        bool(np.all(gold[0] > gold[1])),
        _pairs(*gold),
    )
    lexical = _at_ranks(xtr.lexical_probability), _at_ranks(colbert.lexical_probability)
    yield Claim(
        "XTR retrieves the query token's own piece less often at ranks 1 to 100",
        bool(np.all(lexical[0] < lexical[1])),
        _pairs(*lexical),
    )


def _histogram(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Claim:
    ours, theirs = _share_near_top(xtr), _share_near_top(colbert)
    return Claim(
        f"the ColBERT-trained model's scores pile up near the top, XTR's do not (share above {NEAR_TOP})",
        theirs > 2 * ours,
        f"{theirs:.1%} against {ours:.1%}",
    )


def _k_prime(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    curve = _curve(xtr)
    rises = all(later >= earlier - 0.005 for earlier, later in itertools.pairwise(curve))
    yield Claim(
        "XTR's MRR@10 rises with k'",
        rises and curve[-1] > curve[0],
        ", ".join(f"k'={k}: {value:.3f}" for k, value in zip(xtr.k_prime_metrics, curve, strict=True)),
    )
    early = [_share_at(own, EARLY_K_PRIME) for own in (xtr, colbert)]
    yield Claim(
        f"XTR saturates earlier: at k'={EARLY_K_PRIME} it has more of its best than the other has",
        early[0] > early[1],
        f"{early[0]:.1%} against {early[1]:.1%}",
    )


def _against_colbert(xtr: TokenAnalysis, colbert: TokenAnalysis) -> Iterator[Claim]:
    ours = xtr.imputation_metrics["top_k_prime"]["MRR@10"]
    theirs = colbert.colbert_metrics["MRR@10"]
    yield Claim(
        f"f_XTR' of XTR is at most {SMALL_LOSS} MRR@10 below exact f_ColBERT of the ColBERT-trained model",
        ours >= theirs - SMALL_LOSS,
        f"{ours:.3f} against {theirs:.3f}",
    )
    cost = xtr.cost
    yield Claim(
        "scoring costs a fraction of the operations (below a hundredth)",
        cost["ratio"] > 100,
        f"{cost['colbert_flops']:.2e} against {cost['xtr_flops']:.2e} per query, 1/{cost['ratio']:,.0f}; "
        f"n={cost['query_tokens']:.1f}, m={cost['document_tokens']:.0f}, r={cost['retrieved_tokens']:.2f}",
    )


def _imputations(analysis: TokenAnalysis) -> Sequence[str]:
    return list(analysis.imputation_metrics)


def _at_ranks(probabilities: Sequence[float]) -> np.ndarray:
    return np.array([probabilities[rank - 1] for rank in RANKS if rank <= len(probabilities)])


def _pairs(ours: np.ndarray, theirs: np.ndarray) -> str:
    return ", ".join(
        f"@{rank} {own:.3f}/{other:.3f}" for rank, own, other in zip(RANKS, ours, theirs, strict=False)
    )


def _share_near_top(analysis: TokenAnalysis) -> float:
    """Among the tokens retrieved from documents that are not gold, which are nearly all of them."""
    edges = np.array(analysis.histogram_edges)
    shares = np.array(analysis.other_density) * np.diff(edges)
    return float(shares[edges[:-1] >= NEAR_TOP - 1e-9].sum())


def _curve(analysis: TokenAnalysis) -> list[float]:
    metrics: Mapping[int, Mapping[str, float]] = analysis.k_prime_metrics
    return [metrics[k]["MRR@10"] for k in metrics]


def _share_at(analysis: TokenAnalysis, k_prime: int) -> float:
    best = max(_curve(analysis))
    return analysis.k_prime_metrics[k_prime]["MRR@10"] / best if best else 0.0
