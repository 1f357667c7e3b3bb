"""Claims pass on figures like the paper's, fail on others, and are undecided if the seeds differ too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from xtr_tf.errors import InputError
from xtr_tf.evaluation.token_analysis import TokenAnalysis


@pytest.fixture(scope="module")
def claims(claims_module: Callable) -> ModuleType:
    return claims_module("claims")


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
        colbert_metrics={"MRR@10": 0.38, "Recall@100": 0.9},
        imputation_metrics={
            name: {"MRR@10": own, "Recall@100": 2 * own} for name, own in zip(names, imputed, strict=True)
        },
        k_prime=1000,
        cost={
            "query_tokens": 10.0, "document_tokens": 100.0, "retrieved_tokens": 2.0,
            "colbert_flops": 4e9, "xtr_flops": 1e6, "ratio": 4000.0,
        },
    )  # fmt: skip


def seeds(imputed: list[float], *, noise: float = 0.0, **others: Any) -> list[TokenAnalysis]:
    """Three runs, whose figures under f_XTR' differ by `noise` from seed to seed."""
    return [analysis([own + shift for own in imputed], **others) for shift in (-noise, 0.0, noise)]


LIKE_XTR: dict[str, Any] = {"gold": 0.4, "lexical": 0.3, "peak": 0.5, "curve": [0.30, 0.37, 0.38]}
LIKE_COLBERT: dict[str, Any] = {"gold": 0.2, "lexical": 0.6, "peak": 0.95, "curve": [0.02, 0.08, 0.20]}
XTR = seeds([0.10, 0.30, 0.35, 0.38], **LIKE_XTR)
COLBERT = seeds([0.01, 0.05, 0.10, 0.20], **LIKE_COLBERT)


def test_figures_like_the_papers_pass(claims: ModuleType) -> None:
    checked = list(claims.check(XTR, COLBERT))
    assert len(checked) == 12
    assert [claim.statement for claim in checked if not claim.passed] == []


@pytest.mark.parametrize(
    "words",
    ["clearly below", "near zero", "gold documents", "own piece", "pile up", "saturates earlier", "at most"],
)
def test_exchanged_models_fail(claims: ModuleType, words: str) -> None:
    assert claim_with(words, claims.check(COLBERT, XTR)).passed is False


def claim_with(words: str, checked: Iterator[Any]) -> Any:
    (claim,) = (claim for claim in checked if words in claim.statement)
    return claim


def test_an_interval_that_contains_the_threshold_decides_nothing(claims: ModuleType) -> None:
    """The mean difference is 0.18, far above the threshold, but the seeds differ by as much."""
    uncertain = seeds([0.10, 0.30, 0.35, 0.38], noise=0.1, **LIKE_XTR)
    claim = claim_with("clearly below", claims.check(uncertain, COLBERT))
    assert claim.passed is None
    # 0.1 is the standard deviation, 4.303 the quantile of t for two degrees of freedom.
    assert claim.evidence == "0.380 against 0.200: 0.1800 [-0.0684, 0.4284] ≥ 0.02?"


def test_arms_are_compared_seed_by_seed(claims: ModuleType) -> None:
    """Seeds that move both arms by the same amount say nothing about their difference."""
    ours = seeds([0.10, 0.30, 0.35, 0.38], noise=0.1, **LIKE_XTR)
    theirs = seeds([0.01, 0.05, 0.10, 0.20], noise=0.1, **LIKE_COLBERT)
    assert claim_with("clearly below", claims.check(ours, theirs)).passed is True


def test_one_seed_decides_nothing(claims: ModuleType) -> None:
    assert {claim.passed for claim in claims.check(XTR[:1], COLBERT[:1])} == {None}


def test_a_claim_fails_if_one_of_its_steps_does(claims: ModuleType) -> None:
    falling = seeds([0.10, 0.30, 0.35, 0.34], **LIKE_XTR)
    assert claim_with("in MRR@10", claims.check(falling, COLBERT)).passed is False
    even = seeds([0.10, 0.30, 0.30, 0.30], **LIKE_XTR)
    assert claim_with("in MRR@10", claims.check(even, COLBERT)).passed is True
    none_is_even = seeds([0.30, 0.30, 0.35, 0.38], **LIKE_XTR)
    assert claim_with("in MRR@10", claims.check(none_is_even, COLBERT)).passed is None


def test_intervals_are_students(claims_module: Callable) -> None:
    intervals = claims_module("intervals")
    assert intervals.interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert intervals.interval([0.5]) == (0.5, -np.inf, np.inf)


def test_a_curve_beyond_the_papers_share_is_another_claim(claims: ModuleType) -> None:
    """MRR@10 at the k' of the analysis, 1,000, is that of the imputations, not of the sweep."""
    later = seeds([0.10, 0.30, 0.35, 0.38], **{**LIKE_XTR, "curve": [0.30, 0.37, 0.33]})
    assert claim_with("the paper's share", claims.check(later, COLBERT)).passed is True
    assert claim_with("the largest", claims.check(later, COLBERT)).passed is False


def test_tables_have_all_arms_and_the_line_counts_verdicts(
    claims_module: Callable, claims: ModuleType
) -> None:
    tables = claims_module("claim_tables")
    arms = {"xtr": XTR, "colbert": COLBERT, "imputed": XTR}
    checked = list(claims.check(XTR, COLBERT))
    section = tables.dataset_section("squad", arms, checked, list(claims.check(XTR[:1], COLBERT[:1])))
    assert "| f_XTR | f_XTR' | top_k_prime | 0.3800 [0.3800, 0.3800] | 0.7600 [0.7600, 0.7600] |" in section
    rows = [
        line.split(" | ") for line in section.splitlines() if line.startswith(f"| {checked[2].statement}")
    ]
    assert [row[1::2] for row in rows] == [["PASS", "not at this scale"]]
    verdicts = [claims.Claim("", passed, "") for passed in (True, True, False, None)]
    assert tables.result(verdicts, 10_000_123) == (
        "RESULT claims passed=2 of=4 undecided=1 regime_tokens=10000123"
    )


def test_the_picture_marks_the_papers_operating_point(claims_module: Callable, tmp_path: Path) -> None:
    figures = claims_module("figures")
    analyses = {"squad": {"xtr": XTR, "colbert": COLBERT, "imputed": XTR}}
    figures.draw(analyses, 10_000_000, tmp_path / "claims.svg")
    drawn = (tmp_path / "claims.svg").read_text()
    assert drawn.count("<!-- trained by ") == 3
    assert "<!-- of 484 million -->" in drawn


@pytest.fixture(scope="module")
def grid(claims_module: Callable) -> ModuleType:
    return claims_module("grid")


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


def test_a_grid_without_a_finished_run_is_refused(grid: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "64-128" / "checkpoints").mkdir(parents=True)
    with pytest.raises(InputError, match=r"train_grid\.sh"):
        grid.grid_runs(tmp_path)
