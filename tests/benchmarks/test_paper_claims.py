"""Claims pass on figures like the paper's, and fail when the models are exchanged."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from xtr_tf.evaluation.token_analysis import TokenAnalysis


@pytest.fixture(scope="module")
def claims(benchmark_module) -> ModuleType:
    return benchmark_module("paper_claims", "claims")


def analysis(
    imputed: list[float], gold: float, lexical: float, peak: float, curve: list[float]
) -> TokenAnalysis:
    edges = np.linspace(0, 1, 41)
    density = np.exp(-((edges[:-1] - peak) ** 2) / 0.005)
    density /= (density * np.diff(edges)).sum()
    ranks = np.arange(1, 101)
    names = ("none", "0.0", "0.2", "top_k_prime")
    return TokenAnalysis(
        queries=10,
        query_tokens=100,
        gold_probability=(gold / np.sqrt(ranks)).tolist(),
        lexical_probability=(lexical / np.sqrt(ranks)).tolist(),
        histogram_edges=edges.tolist(),
        gold_density=density.tolist(),
        other_density=density.tolist(),
        k_prime_metrics={k: {"MRR@10": value} for k, value in zip((10, 100, 1000), curve, strict=True)},
        colbert_metrics={"MRR@10": 0.38},
        imputation_metrics={
            name: {"MRR@10": own, "Recall@100": 2 * own} for name, own in zip(names, imputed, strict=True)
        },
        k_prime=1000,
        cost={
            "query_tokens": 10.0, "document_tokens": 100.0, "retrieved_tokens": 2.0,
            "colbert_flops": 4e9, "xtr_flops": 1e6, "ratio": 4000.0,
        },
    )  # fmt: skip


XTR = analysis([0.10, 0.30, 0.35, 0.38], gold=0.4, lexical=0.3, peak=0.5, curve=[0.30, 0.37, 0.38])
COLBERT = analysis([0.01, 0.05, 0.10, 0.20], gold=0.2, lexical=0.6, peak=0.95, curve=[0.02, 0.08, 0.20])


def test_figures_like_the_papers_pass(claims: ModuleType) -> None:
    checked = list(claims.check_claims(XTR, COLBERT))
    assert len(checked) == 11
    assert [claim.statement for claim in checked if not claim.passed] == []


@pytest.mark.parametrize(
    "words",
    ["clearly below", "near zero", "gold documents", "own piece", "pile up", "saturates earlier", "at most"],
)
def test_exchanged_models_fail(claims: ModuleType, words: str) -> None:
    (claim,) = (claim for claim in claims.check_claims(COLBERT, XTR) if words in claim.statement)
    assert not claim.passed
