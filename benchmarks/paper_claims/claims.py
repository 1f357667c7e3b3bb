"""The paper's claims as comparisons of token analyses over seeds. Knows nothing about models or drawing.

Two arms are compared seed by seed, because runs of the same seed saw the same data in the same order.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), sections 4 and 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from intervals import Comparison, above, all_hold

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
#: A drop in MRR@10 from one k' to the next that does not count as one.
SAME = 0.005

#: The analyses of an arm on one test set, one per seed, in the order of the seeds.
Seeds = Sequence[TokenAnalysis]


class Claim(NamedTuple):
    """One claim on one dataset.

    Attributes:
        statement: The claim, in a sentence.
        passed: Whether it holds here; None if the seeds differ too much to say.
        evidence: The figures that decided it.
    """

    statement: str
    passed: bool | None
    evidence: str


def check(xtr: Seeds, colbert: Seeds) -> Iterator[Claim]:
    """Checks every claim, at the k' of the analyses.

    Args:
        xtr: Analyses of the arm that was trained with token retrieval.
        colbert: Analyses of the arm that was trained with f_ColBERT, of the same seeds.
    """
    yield from _imputation(xtr, colbert)
    yield from _against_colbert(xtr, colbert)
    yield from _retrieved_tokens(xtr, colbert)
    yield _histogram(xtr, colbert)
    yield from _k_prime(xtr, colbert)


def _imputation(xtr: Seeds, colbert: Seeds) -> Iterator[Claim]:
    for metric in METRICS:
        columns = [
            [own.imputation_metrics[name][metric] for own in xtr] for name in xtr[0].imputation_metrics
        ]
        steps = [
            above(np.subtract(later, earlier), or_equal=number > 0)
            for number, (earlier, later) in enumerate(itertools.pairwise(columns))
        ]
        yield Claim(
            f"XTR's imputations rank none < zero <= 0.2 <= top-k' in {metric}",
            all_hold(steps),
            f"{', '.join(f'{np.mean(column):.3f}' for column in columns)}; steps {_list(steps)}",
        )
    yield _compared(
        f"under f_XTR' the ColBERT-trained model is clearly below XTR (by {CLEARLY} MRR@10)",
        [_imputed(own) for own in xtr],
        [_imputed(own) for own in colbert],
        CLEARLY,
        or_equal=True,
    )
    without = [own.imputation_metrics["none"]["MRR@10"] for own in colbert]
    yield _compared(
        f"without imputation the ColBERT-trained model is near zero (below {NEAR_ZERO:.0%} of its own)",
        [NEAR_ZERO * _imputed(own) for own in colbert],
        without,
        or_equal=True,
    )


def _against_colbert(xtr: Seeds, colbert: Seeds) -> Iterator[Claim]:
    yield _compared(
        f"f_XTR' of XTR is at most {SMALL_LOSS} MRR@10 below exact f_ColBERT of the ColBERT-trained model",
        [_imputed(own) for own in xtr],
        [own.colbert_metrics["MRR@10"] for own in colbert],
        -SMALL_LOSS,
        or_equal=True,
    )
    ratio = above([own.cost["ratio"] for own in xtr], 100)
    (mean, low, high), cost = ratio.difference, xtr[0].cost
    yield Claim(
        "scoring costs a fraction of the operations (below a hundredth)",
        ratio.holds,
        f"1/{mean:,.0f} [{low:,.0f}, {high:,.0f}]; "
        f"n={cost['query_tokens']:.1f}, m={cost['document_tokens']:.0f}, r={cost['retrieved_tokens']:.2f}",
    )


def _retrieved_tokens(xtr: Seeds, colbert: Seeds) -> Iterator[Claim]:
    yield _at_every_rank(
        "XTR retrieves tokens of gold documents more often at ranks 1 to 100",
        *([_at_ranks(own.gold_probability) for own in arm] for arm in (xtr, colbert)),
        sign=1,
    )
    yield _at_every_rank(
        "XTR retrieves the query token's own piece less often at ranks 1 to 100",
        *([_at_ranks(own.lexical_probability) for own in arm] for arm in (xtr, colbert)),
        sign=-1,
    )


def _histogram(xtr: Seeds, colbert: Seeds) -> Claim:
    return _compared(
        f"the ColBERT-trained model's scores pile up near the top, XTR's do not (share above {NEAR_TOP} more "
        "than twice XTR's)",
        [_share_near_top(own) for own in colbert],
        [2 * _share_near_top(own) for own in xtr],
    )


def _k_prime(xtr: Seeds, colbert: Seeds) -> Iterator[Claim]:
    for curve_of, until in (
        (_up_to_its_k_prime, "the paper's share of the tokens"),
        (_sweep, "the largest that was measured"),
    ):
        curves = np.array([list(curve_of(own).values()) for own in xtr])
        if curves.shape[1] < 2:  # the pool is too small for a k' below the paper's share
            continue
        steps = [above(column, -SAME, or_equal=True) for column in np.diff(curves, axis=1).T]
        steps.append(above(curves[:, -1] - curves[:, 0]))
        points = zip(curve_of(xtr[0]), curves.mean(axis=0), strict=True)
        yield Claim(
            f"XTR's MRR@10 rises with k' up to {until} (drops of {SAME} do not count)",
            all_hold(steps),
            f"{', '.join(f'{k_prime:,}: {value:.3f}' for k_prime, value in points)}; "
            f"steps, then first to last: {_list(steps)}",
        )
    yield _compared(
        f"XTR saturates earlier: at k'={EARLY_K_PRIME} it has more of its best than the other has",
        [_share_at(own, EARLY_K_PRIME) for own in xtr],
        [_share_at(own, EARLY_K_PRIME) for own in colbert],
    )


def _compared(
    statement: str,
    larger: Sequence[float],
    smaller: Sequence[float],
    threshold: float = 0.0,
    or_equal: bool = False,
) -> Claim:
    """A claim that one figure minus another is above a threshold."""
    comparison = above(np.subtract(larger, smaller), threshold, or_equal)
    evidence = f"{np.mean(larger):.3f} against {np.mean(smaller):.3f}: {comparison}"
    return Claim(statement, comparison.holds, evidence)


def _at_every_rank(
    statement: str, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], sign: int
) -> Claim:
    differences = sign * np.subtract(ours, theirs)
    comparisons = [above(of_rank) for of_rank in differences.T]
    rows = zip(RANKS, np.mean(ours, axis=0), np.mean(theirs, axis=0), comparisons, strict=False)
    evidence = ", ".join(f"@{rank} {own:.4f}/{other:.4f}: {compared}" for rank, own, other, compared in rows)
    return Claim(statement, all_hold(comparisons), evidence)


def _list(comparisons: Sequence[Comparison]) -> str:
    return ", ".join(map(str, comparisons))


def _imputed(analysis: TokenAnalysis) -> float:
    """MRR@10 as search ranks."""
    return analysis.imputation_metrics["top_k_prime"]["MRR@10"]


def _at_ranks(probabilities: Sequence[float]) -> np.ndarray:
    return np.array([probabilities[rank - 1] for rank in RANKS if rank <= len(probabilities)])


def _share_near_top(analysis: TokenAnalysis) -> float:
    """Among the tokens retrieved from documents that are not gold, which are nearly all of them."""
    edges = np.array(analysis.histogram_edges)
    shares = np.array(analysis.other_density) * np.diff(edges)
    return float(shares[edges[:-1] >= NEAR_TOP - 1e-9].sum())


def _sweep(analysis: TokenAnalysis) -> dict[int, float]:
    """MRR@10 at every k' of the analysis."""
    return {k_prime: metrics["MRR@10"] for k_prime, metrics in analysis.k_prime_metrics.items()}


def _up_to_its_k_prime(analysis: TokenAnalysis) -> dict[int, float]:
    """MRR@10 at every k' up to the paper's share, which the imputations were measured at."""
    smaller = {k: value for k, value in _sweep(analysis).items() if k < analysis.k_prime}
    return {**smaller, analysis.k_prime: _imputed(analysis)}


def _share_at(analysis: TokenAnalysis, k_prime: int) -> float:
    curve = _sweep(analysis)
    best = max(curve.values())
    return curve[k_prime] / best if best else 0.0
