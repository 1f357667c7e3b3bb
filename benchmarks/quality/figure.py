"""The picture of quality per millisecond."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from points import METRIC, Point

_COLORS = {"scann": "#d1495b", "core": "#edae49"}
#: Settings of a kind that are not on its curve over k', by the end of their names.
_VARIANTS = {
    "leaves": ("v", "fewer or more leaves"),
    "rescored": ("+", "rescored"),
    "with BM25": ("*", "with BM25"),
}
_OTHERS = {"BM25": ("#2e86ab", "s"), "one vector": ("#66a182", "^")}


def draw(points: Sequence[Point], path: Path) -> None:
    """Draws one panel per set: a curve over k' and marks for each kind of index, and other systems.

    Args:
        points: All points.
        path: The SVG file.
    """
    sets = list(dict.fromkeys(point.dataset for point in points))
    figure, row = plt.subplots(1, len(sets), figsize=(5.5 * len(sets), 4.5), squeeze=False)
    for axis, name in zip(row[0], sets, strict=True):
        own = [point for point in points if point.dataset == name]
        times = [point.milliseconds for point in own]
        middle = math.sqrt(min(times) * max(times))
        for kind, color in _COLORS.items():
            of_kind = [point for point in own if point.system.startswith(f"{kind},")]
            curve = [point for point in of_kind if re.fullmatch(rf"{kind}, k' [\d,]+", point.system)]
            axis.plot(*_places(curve), "o-", color=color, markersize=4, label=f"{kind}, k' 100 to 10,000")
            for ending, (marker, label) in _VARIANTS.items():
                some = [point for point in of_kind if point.system.endswith(ending)]
                axis.plot(*_places(some), marker, color=color, markersize=8, label=f"{kind}, {label}")
        for point in own:
            if point.system.partition(",")[0] not in _COLORS:
                color, marker = next(style for words, style in _OTHERS.items() if words in point.system)
                axis.plot(*_places([point]), marker, color=color, markersize=6)
                # Names stay within the panel.
                offset, side = ((6, -3), "left") if point.milliseconds < middle else ((-6, -3), "right")
                axis.annotate(
                    point.system, _place(point), offset, "data", "offset points", ha=side, fontsize=8
                )
        axis.set(xscale="log", xlabel="milliseconds per query", ylabel=METRIC, title=name)
        axis.spines[["top", "right"]].set_visible(False)
    handles, names = row[0][0].get_legend_handles_labels()
    figure.legend(
        handles, names, frameon=False, fontsize="small", loc="lower center", ncols=4, title="xtr-tf"
    )
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _place(point: Point) -> tuple[float, float]:
    return point.milliseconds, point.ndcg


def _places(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [point.milliseconds for point in points], [point.ndcg for point in points]
