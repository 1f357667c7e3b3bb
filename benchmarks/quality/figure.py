"""The picture of quality per millisecond."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from points import METRIC, Point

_CURVES = {"scann": {"color": "#d1495b"}, "core": {"color": "#edae49", "linestyle": "--"}}
_OTHERS = {"BM25": {"color": "#2e86ab", "marker": "s"}, "one vector": {"color": "#66a182", "marker": "^"}}


def draw(points: Sequence[Point], path: Path) -> None:
    """Draws one panel per set: a curve over k' for each kind of index, a mark for every other system.

    Args:
        points: All points.
        path: The SVG file.
    """
    sets = list(dict.fromkeys(point.dataset for point in points))
    figure, row = plt.subplots(1, len(sets), figsize=(6.5 * len(sets), 4.5), squeeze=False)
    for axis, name in zip(row[0], sets, strict=True):
        own = [point for point in points if point.dataset == name]
        for kind, style in _CURVES.items():
            curve = [point for point in own if re.fullmatch(rf"{kind}, k' [\d,]+", point.system)]
            axis.plot(
                *_places(curve), marker="o", markersize=4, label=f"xtr-tf {kind}, k' 100 to 10,000", **style
            )
        for point in own:
            if re.fullmatch(r"(scann|core), k' [\d,]+", point.system):
                continue
            styles = (style for words, style in _OTHERS.items() if words in point.system)
            kind = point.system.partition(",")[0]
            style = {**_CURVES[kind], "marker": "x"} if kind in _CURVES else next(styles)
            axis.plot(*_places([point]), **{**style, "linestyle": "none", "markersize": 6})
            axis.annotate(point.system, _place(point), textcoords="offset points", xytext=(6, -3), fontsize=7)
        axis.set(xscale="log", xlabel="milliseconds per query", ylabel=METRIC, title=name)
        axis.spines[["top", "right"]].set_visible(False)
    row[0][0].legend(frameon=False, fontsize="small", loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _place(point: Point) -> tuple[float, float]:
    return point.milliseconds, point.ndcg


def _places(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [point.milliseconds for point in points], [point.ndcg for point in points]
