"""Plots that take their colours from the page: matplotlib draws, the page's style sheet paints.

Every colour that matplotlib writes is a placeholder, which is replaced by a CSS variable, so that one
drawing works on light and dark pages. Series have the colours of Okabe and Ito, which colour-blind
readers can distinguish, and different markers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xtr_tf.evaluation.report import formatting

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
        name: A unique name on the page, the prefix of all ids.
        label: A description for screen readers.
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


Content = Mapping[str, Any]


def draw_plots(content: Content) -> dict[str, str]:
    """All plots for which the content has data: `<svg>` elements by name.

    Names are `quality-METRIC` for every metric that datasets are reported with, `differences`,
    `gold`, `lexical`, `similarities` and `k-prime`.
    """
    plots = {}
    metrics = dict.fromkeys(dataset["metric"] for dataset in content["datasets"])
    for metric in metrics:
        plots[f"quality-{metric}"] = quality_plot(content, metric)
    if content["comparisons"] and content["comparisons"][0]["languages"]:
        plots["differences"] = difference_plot(content)
    analyses = [dataset["analysis"] for dataset in content["datasets"] if dataset["analysis"]]
    if analyses:
        plots["gold"] = rank_plot(analyses, "gold_probability", "gold", "from a gold document")
        plots["lexical"] = rank_plot(analyses, "lexical_probability", "lexical", "the same piece")
        plots["similarities"] = similarity_plot(analyses)
        plots["k-prime"] = k_prime_plot(analyses)
    return plots


def quality_plot(content: Content, metric: str) -> str:
    """Figures of all systems on every dataset reported with `metric`, with their intervals.

    Args:
        content: Content of the report.
        metric: A name from `METRICS`.

    Returns:
        The picture as SVG.
    """
    rows = [row for row in (*content["datasets"], *content["averages"]) if row["metric"] == metric]
    systems = [system for system in content["systems"] if system["key"] in SYSTEM_STYLES]
    with new_figure(height=0.9 + 0.3 * len(rows)) as (figure, axes):
        spread = 0.5 / max(len(systems) - 1, 1)
        for position, system in enumerate(systems):
            colour, marker = SYSTEM_STYLES[system["key"]]
            figures = [(y, formatting.figure(row, system["key"], metric)) for y, row in enumerate(rows)]
            known = [(y + spread * position - 0.25, figure) for y, figure in figures if figure]
            _draw_intervals(axes, known, fmt=marker, color=colour, label=system["label"], markersize=4.5)
        averages = len(rows) - sum(row["metric"] == metric for row in content["averages"])
        if 0 < averages < len(rows):
            axes.axhline(averages - 0.5, color=GRID, linewidth=1.4)
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"{metric} (points of 100, 95% interval)")
        figure.legend(
            loc="outside upper center", ncols=min(len(systems), 4), handletextpad=0.2, columnspacing=1
        )
        return to_svg(figure, f"quality-{metric.replace('@', '-')}", f"{metric} of every dataset and system")


def difference_plot(content: Content) -> str:
    """The difference between the model and the system it is compared with, by language."""
    comparison = content["comparisons"][0]
    rows = comparison["languages"]
    labels = formatting.system_labels(content)
    colours = {"better": FIRST, "worse": SECOND, "no clear difference": QUIET}
    with new_figure(height=0.9 + 0.24 * len(rows)) as (figure, axes):
        axes.axvline(0, color=QUIET, linewidth=1)
        for verdict, colour in colours.items():
            with_verdict = [(y, row) for y, row in enumerate(rows) if row["verdict"] == verdict]
            marker = {"better": "o", "worse": "s", "no clear difference": "D"}[verdict]
            _draw_intervals(axes, with_verdict, fmt=marker, color=colour, label=verdict, markersize=5)
        axes.set_yticks(range(len(rows)), [formatting.language(row["name"]) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.margins(x=0.08)
        axes.grid(axis="y", visible=False)
        title = f"{labels['xtr']} minus {labels[comparison['other']]}"
        axes.set_xlabel("difference (points of 100, 95% interval)")
        figure.legend(loc="outside upper center", ncols=3, handletextpad=0.3)
        return to_svg(figure, "differences", f"{title} by language")


def _draw_intervals(axes: Any, figures: Sequence[tuple[float, Content]], **style: Any) -> None:
    """Draws figures with their intervals as points with whiskers, at the given heights."""
    if figures:
        values = np.array([[figure["value"], figure["low"], figure["high"]] for _, figure in figures]) * 100
        whiskers = np.abs(values[:, 1:] - values[:, :1]).T
        axes.errorbar(values[:, 0], [y for y, _ in figures], xerr=whiskers, elinewidth=1.1, **style)


def rank_plot(analyses: Sequence[Content], key: str, name: str, what: str) -> str:
    """The probability that a retrieved token is `what`, by its rank; the mean is highlighted.

    Args:
        analyses: Token analyses, one per dataset.
        key: Key of the curve in an analysis.
        name: Name of the vertical axis.
        what: What a token may be, for the description.

    Returns:
        The picture as SVG.
    """
    ranks = min(len(analysis[key]) for analysis in analyses)
    curves = 100 * np.array([analysis[key][:ranks] for analysis in analyses])
    positions = np.arange(1, ranks + 1)
    with new_figure() as (figure, axes):
        if len(curves) > 1:
            axes.plot(positions, curves.T, color=QUIET, linewidth=0.7, alpha=0.6)
        axes.plot(positions, curves.mean(axis=0), color=FIRST, linewidth=2.4)
        axes.set_xscale("log")
        axes.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= ranks])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.minorticks_off()
        axes.set_ylim(0, max(curves.max() * 1.05, 1))
        axes.set_xlabel("rank of the retrieved token")
        axes.set_ylabel(f"tokens that are {what} (%)")
        return to_svg(figure, name, f"Share of retrieved tokens that are {what}, by rank")


def similarity_plot(analyses: Sequence[Content]) -> str:
    """Densities of the similarities of retrieved tokens, of gold documents and of others."""
    # Analyses keep the bins that have counts; all bins are 0.025 wide and begin at -1.
    densities = np.zeros((2, 80))
    for analysis in analyses:
        first = round((analysis["histogram_edges"][0] + 1) / 0.025)
        bins = slice(first, first + len(analysis["gold_density"]))
        densities[0, bins] += np.array(analysis["gold_density"]) / len(analyses)
        densities[1, bins] += np.array(analysis["other_density"]) / len(analyses)
    edges = np.linspace(-1, 1, 81)
    shown = np.flatnonzero(densities.sum(axis=0))
    with new_figure() as (figure, axes):
        for density, colour, label in (
            (densities[1], QUIET, "other documents"),
            (densities[0], FIRST, "gold"),
        ):
            axes.stairs(density, edges, color=colour, linewidth=1.6, label=label)
            axes.stairs(density, edges, color=colour, alpha=0.25, fill=True)
        axes.set_xlim(max(edges[shown[0]] - 0.05, -1), min(edges[shown[-1] + 1] + 0.05, 1))
        axes.set_ylim(0, densities.max() * 1.08)
        axes.set_xlabel("similarity of a retrieved token (cosine)")
        axes.set_ylabel("density")
        axes.legend(loc="best")
        return to_svg(figure, "similarities", "Densities of the similarities of retrieved tokens")


def k_prime_plot(analyses: Sequence[Content]) -> str:
    """Metrics of f_XTR' against k', next to f_ColBERT; means over the datasets that reach every k'."""
    shared = sorted(set.intersection(*(set(map(int, analysis["k_prime_metrics"])) for analysis in analyses)))
    lookup = [
        {int(k): metrics for k, metrics in analysis["k_prime_metrics"].items()} for analysis in analyses
    ]
    with new_figure() as (figure, axes):
        for metric, colour, marker in (("Recall@100", FIRST, "o"), ("nDCG@10", SECOND, "s")):
            means = [100 * np.mean([metrics[k][metric] for metrics in lookup]) for k in shared]
            exact = 100 * np.mean([analysis["colbert_metrics"][metric] for analysis in analyses])
            axes.plot(shared, means, color=colour, marker=marker, markersize=4.5, label=f"{metric}, f_XTR′")
            axes.axhline(exact, color=colour, linestyle="--", linewidth=1.1, label=f"{metric}, f_ColBERT")
        axes.set_xscale("log")
        axes.set_xticks(shared, [f"{k:,}" for k in shared])
        axes.minorticks_off()
        axes.set_xlabel("k′: tokens that each query token retrieves")
        axes.set_ylabel("points of 100")
        figure.legend(loc="outside upper center", ncols=2, handletextpad=0.4)
        return to_svg(figure, "k-prime", "Recall@100 and nDCG@10 against k′")
