"""Claims pass on figures like the paper's, and fail when the models are exchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
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


def check(claims: ModuleType, xtr: TokenAnalysis, colbert: TokenAnalysis) -> list:
    return [*claims.check_scoring(xtr, colbert), *claims.check_retrieval(xtr, colbert)]


def test_figures_like_the_papers_pass(claims: ModuleType) -> None:
    checked = check(claims, XTR, COLBERT)
    assert len(checked) == 11
    assert [claim.statement for claim in checked if not claim.passed] == []


@pytest.mark.parametrize(
    "words",
    ["clearly below", "near zero", "gold documents", "own piece", "pile up", "saturates earlier", "at most"],
)
def test_exchanged_models_fail(claims: ModuleType, words: str) -> None:
    (claim,) = (claim for claim in check(claims, COLBERT, XTR) if words in claim.statement)
    assert not claim.passed


@pytest.fixture(scope="module")
def grid(benchmark_module, claims: ModuleType) -> Iterator[ModuleType]:
    # The scripts import each other by the name of their file.
    sys.modules["claims"] = claims
    yield benchmark_module("paper_claims", "grid")
    del sys.modules["claims"]


LIKE_THE_PAPERS = {
    (16, 32): {10: 0.20, 1000: 0.30},
    (16, 512): {10: 0.10, 1000: 0.31},
    (64, 32): {10: 0.25, 1000: 0.33},
    (64, 512): {10: 0.12, 1000: 0.36},
}


def test_a_grid_like_the_papers_passes(grid: ModuleType) -> None:
    checked = list(grid.check_grid(LIKE_THE_PAPERS))
    assert len(checked) == 4
    assert all(claim.passed for claim in checked)
    assert grid.grid_table(LIKE_THE_PAPERS)[2] == "| 16 | 32 | 0.200 | 0.300 |"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("prefers a larger k'", {(16, 32): {10: 0.4, 1000: 0.3}}),
        ("loses least", {(64, 32): {10: 0.05, 1000: 0.33}}),
        ("is best at a large", {(64, 32): {10: 0.25, 1000: 0.40}}),
        ("mostly better", {(16, 32): {10: 0.2, 1000: 0.4}, (16, 512): {10: 0.1, 1000: 0.4}}),
    ],
)
def test_another_grid_fails(grid: ModuleType, words: str, changes: dict) -> None:
    (claim,) = (own for own in grid.check_grid({**LIKE_THE_PAPERS, **changes}) if words in own.statement)
    assert not claim.passed


def test_only_finished_runs_are_measured(grid: ModuleType, tmp_path: Path) -> None:
    for name in ("64-32/encoder", "16-512/encoder", "64-128/checkpoints"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "64-32.log").touch()
    assert list(grid.grid_runs(tmp_path)) == [(16, 512), (64, 32)]
