"""Latency against overlap, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from curves import frontier, points_of

mpl.use("svg")
import matplotlib.pyplot as plt

_GREY = "#808080"
_PANELS = (
    (
        "overlap_xtr",
        "overlap@10 with exact XTR, k' = 1,000",
        ("xtr-tf scann", "xtr-tf scann-int8", "xtr-tf core", "FAISS"),
    ),
    (
        "overlap_colbert",
        "overlap@10 with exact f_ColBERT",
        ("xtr-tf scann", "xtr-tf rescored", "xtr-warp-rs", "fast-plaid", "notebook"),
    ),
)
_COLOURS = {
    "xtr-tf scann": "#d1495b",
    "xtr-tf scann-int8": "#e08e45",
    "xtr-tf core": "#8f6fc1",
    "xtr-tf rescored": "#e08e45",
    "FAISS": "#2e86ab",
    "xtr-warp-rs": "#3a9d6e",
    "fast-plaid": "#7f8c3a",
    "notebook": "#8d6e63",
}


def plot(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws one curve per engine on one thread, with a transparent background."""
    style = {"text.color": _GREY, "axes.labelcolor": _GREY, "xtick.color": _GREY, "ytick.color": _GREY}
    with mpl.rc_context({**style, "axes.edgecolor": _GREY, "svg.fonttype": "none", "svg.hashsalt": "xtr-tf"}):
        figure, axes = plt.subplots(1, len(_PANELS), figsize=(11, 4.2))
        for axis, (yardstick, label, engines) in zip(axes, _PANELS, strict=True):
            # Overlaps with exact XTR can only be compared at the same k'.
            own = [record for record in records if yardstick != "overlap_xtr" or record["judged_by"] == 1_000]
            for engine in engines:
                points = points_of(own, yardstick, 1, engine)
                if points:
                    curve = frontier(points)
                    colour = _COLOURS[engine]
                    axis.scatter(*zip(*points, strict=True), color=colour, s=9, alpha=0.5)
                    axis.plot(*zip(*curve, strict=True), color=colour, marker="o", markersize=4, label=engine)
            axis.set_yscale("log")
            axis.set_xlabel(label)
            axis.set_ylabel("ms per query, p50, one thread")
            axis.grid(color=_GREY, alpha=0.25)
            axis.legend(frameon=False)
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)
