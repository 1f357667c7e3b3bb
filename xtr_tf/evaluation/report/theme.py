"""Plots that take their colours from the page: matplotlib draws, the page's style sheet paints.

Every colour that matplotlib writes is a placeholder, replaced by a CSS variable, so that one drawing
serves light and dark pages. Series colours are those of Okabe and Ito, which colour-blind readers can
tell apart; series differ in their markers too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INK, _AXIS, _GRID, _SURFACE, _QUIET = "#a1000a", "#a1000b", "#a1000c", "#a1000d", "#a1000e"
_VARIABLES = {_INK: "--ink", _AXIS: "--axis", _GRID: "--grid", _SURFACE: "--surface", _QUIET: "--quiet"}
_VARIABLES |= {f"#a1000{number}": f"--series-{number}" for number in range(1, 6)}

#: Placeholder and marker of each system.
SYSTEM_STYLES = {
    "xtr": ("#a10001", "o"),
    "bm25": ("#a10002", "s"),
    "colbert": ("#a10003", "D"),
    "baseline": ("#a10004", "^"),
    "fusion": ("#a10005", "v"),
}
FIRST, SECOND, QUIET, GRID = "#a10001", "#a10002", _QUIET, _GRID

_WIDTH = 4.7  # inches; at 390 pixels the page shows it at about its own size
_FONT = re.compile(r"font: (?:bold |italic )*([\d.]+)px [^;\"]*")


@contextmanager
def new_figure(height: float = 3.0) -> Iterator[tuple[Any, Any]]:
    """Gives a figure and its axes in the style of the report; closes the figure afterwards.

    Args:
        height: In inches.
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    style = {
        "axes.edgecolor": _AXIS,
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.labelcolor": _INK,
        "axes.labelsize": 9,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.facecolor": "none",
        "font.size": 9,
        "grid.color": _GRID,
        "grid.linewidth": 0.6,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "svg.fonttype": "none",
        "text.color": _INK,
        "xtick.color": _AXIS,
        "xtick.labelcolor": _INK,
        "ytick.color": _AXIS,
        "ytick.labelcolor": _INK,
    }
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(_WIDTH, height), layout="constrained")
        axes.set_axisbelow(True)
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def to_svg(figure: Any, name: str, label: str) -> str:
    """The figure as an `<svg>` element for a page.

    Args:
        figure: A figure made by `new_figure`.
        name: Unique on the page; begins all ids.
        label: What it shows, for those who do not see it.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawn = buffer.getvalue()
    svg = drawn[drawn.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _FONT.sub(r"font: \1px var(--font)", svg)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\1{name}-", svg)
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, f"var({variable})")
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box
    opening = f'<svg {view_box[0]} xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}">'
    return re.sub(r"<svg[^>]*>", opening, svg, count=1, flags=re.DOTALL)
