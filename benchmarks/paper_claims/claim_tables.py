"""The claims and the paper's table of imputations in Markdown, and the RESULT line. Knows no models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arms import ARMS
from claims import METRICS, Claim
from grid import Grid, grid_table
from intervals import interval

from xtr_tf.evaluation.token_analysis import TokenAnalysis

_VERDICTS = {True: "PASS", False: "FAIL", None: "not at this scale"}


def dataset_section(
    name: str,
    arms: Mapping[str, Sequence[TokenAnalysis]],
    claims: Sequence[Claim],
    of_third_arm: Sequence[Claim],
) -> str:
    """The imputation table as the paper prints it, and the claims.

    Args:
        name: Name of the dataset.
        arms: Analyses by arm, one per seed.
        claims: The claims, checked on the f_XTR arm.
        of_third_arm: The same claims, checked on the arm that was trained by the score of search.

    Returns:
        Markdown.
    """
    first = next(iter(arms.values()))[0]
    lines = [
        f"### {name}, k' = {first.k_prime:,}",
        "",
        f"{first.queries:,} queries.",
        "",
        f"| trained by | scored by | imputation | {' | '.join(METRICS)} |",
        f"|---|---|---|{'---:|' * len(METRICS)}",
    ]
    for arm, seeds in arms.items():
        for imputation in first.imputation_metrics:
            values = _values([own.imputation_metrics[imputation] for own in seeds])
            lines.append(f"| {ARMS[arm]} | f_XTR' | {imputation} | {values} |")
        lines.append(f"| {ARMS[arm]} | f_ColBERT | | {_values([own.colbert_metrics for own in seeds])} |")
    lines += [
        "",
        f"| claim | {ARMS['xtr']} | figures | {ARMS['imputed']} | figures |",
        "|---|---|---|---|---|",
    ]
    for claim, third in zip(claims, of_third_arm, strict=True):
        lines.append(f"| {claim.statement} | {_verdict(claim)} | {_verdict(third)} |")
    return "\n".join([*lines, ""])


def grid_section(title: str, grid: Grid, claims: Iterable[Claim]) -> str:
    """The grid of batch sizes and k_train, and its claims, of one run per cell."""
    rows = [f"| {claim.statement} | {_verdict(claim)} |" for claim in claims]
    return "\n".join(
        [f"### {title}", "", *grid_table(grid), "", "| claim | | figures |", "|---|---|---|", *rows, ""]
    )


def result(claims: Sequence[Claim], tokens: int, name: str = "claims") -> str:
    """The line that sums everything up."""
    passed, undecided = (sum(claim.passed is verdict for claim in claims) for verdict in (True, None))
    return f"RESULT {name} passed={passed} of={len(claims)} undecided={undecided} regime_tokens={tokens}"


def _verdict(claim: Claim) -> str:
    return f"{_VERDICTS[claim.passed]} | {claim.evidence}"


def _values(metrics: Sequence[Mapping[str, float]]) -> str:
    return " | ".join(str(interval([own[metric] for own in metrics])) for metric in METRICS)
