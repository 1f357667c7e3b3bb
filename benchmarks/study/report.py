"""Tables and pictures of the study's measurements. Knows nothing about models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

Records = Sequence[dict[str, Any]]

COLUMNS = {
    "xtr_mrr": "MRR@10, f_XTR'",
    "colbert_mrr": "MRR@10, f_ColBERT",
    "gold_rate": "gold tokens, ranks 1-100",
    "lexical_rate": "same piece, ranks 1-100",
}
_ORDER = ("untrained", "warm", "colbert", "xtr")
_LABELS = {"xtr": "trained by f_XTR", "colbert": "trained by f_ColBERT", "warm": "shared start"}
_COLOURS = {"xtr": "#d1495b", "colbert": "#2e86ab", "warm": "#8f6fc1"}
_GREY = "#808080"


def write_report(records: Records, path: Path) -> None:
    """Writes `path`.md, and `path`.svg if there is more than one step of an arm."""
    path.with_suffix(".md").write_text(table(records), encoding="utf-8")
    if any(record["step"] > 0 for record in records):
        plot(records, path.with_suffix(".svg"))


def table(records: Records) -> str:
    """One table per test set, one row per checkpoint; the arms continue from the last shared step."""
    lines = []
    for name in dict.fromkeys(record["set"] for record in records):
        own = [record for record in records if record["set"] == name]
        first = own[0]
        lines += [
            f"### {name}",
            "",
            f"{first['queries']:,} queries, {first['documents']:,} documents, {first['tokens']:,} tokens.",
            "",
            f"| model | step | {' | '.join(COLUMNS.values())} |",
            f"|---|---|{'---|' * len(COLUMNS)}",
        ]
        for record in sorted(own, key=lambda record: (_ORDER.index(record["arm"]), record["step"])):
            values = " | ".join(f"{record[column]:.3f}" for column in COLUMNS)
            lines.append(f"| {record['arm']} | {record['step']} | {values} |")
        lines.append("")
    return "\n".join(lines)


def crossings(records: Records, column: str, name: str) -> list[int]:
    """Steps of a test set at which the arm of f_XTR is first above, or below again."""
    by_arm = {
        arm: {r["step"]: r[column] for r in records if r["arm"] == arm and r["set"] == name}
        for arm in ("xtr", "colbert")
    }
    steps, above = [], False
    for step in sorted(by_arm["xtr"].keys() & by_arm["colbert"].keys()):
        if (by_arm["xtr"][step] > by_arm["colbert"][step]) != above:
            above = not above
            steps.append(step)
    return steps


def plot(records: Records, path: Path) -> None:
    """One row per test set, one panel per measurement, with a transparent background."""
    names = list(dict.fromkeys(record["set"] for record in records))
    shared = max((record["step"] for record in records if record["arm"] == "warm"), default=0)
    style = {"text.color": _GREY, "axes.labelcolor": _GREY, "xtick.color": _GREY, "ytick.color": _GREY}
    with mpl.rc_context({**style, "axes.edgecolor": _GREY, "svg.fonttype": "none", "svg.hashsalt": "xtr-tf"}):
        figure, grid = plt.subplots(
            len(names), len(COLUMNS), figsize=(14, 3 * len(names)), squeeze=False, sharex=True
        )
        for row, name in zip(grid, names, strict=True):
            own = [record for record in records if record["set"] == name]
            for axis, (column, label) in zip(row, COLUMNS.items(), strict=True):
                _draw(axis, own, column, shared)
                axis.set_title(f"{name}: {label}", fontsize=9)
        for axis in grid[-1]:
            axis.set_xlabel("step, shared start included")
        grid[0][0].legend(frameon=False, fontsize=8)
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def _draw(axis: Any, records: Records, column: str, shared: int) -> None:
    for record in records:
        if record["arm"] == "untrained":
            axis.axhline(record[column], color=_GREY, linestyle=":", label="untrained")
    start = [(r["step"], r[column]) for r in records if r["arm"] == "warm" and r["step"] == shared]
    for arm, label in _LABELS.items():
        offset = 0 if arm == "warm" else shared
        points = sorted((r["step"] + offset, r[column]) for r in records if r["arm"] == arm)
        if points and arm != "warm":
            points = start + points
        if points:
            axis.plot(*zip(*points, strict=True), color=_COLOURS[arm], marker=".", label=label)
    axis.grid(color=_GREY, alpha=0.25)
