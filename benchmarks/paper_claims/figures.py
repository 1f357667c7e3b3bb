"""The figures of the paper's analysis, for all arms side by side, in colours that differ in grey, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from analyses import PAPERS_SHARE
from arms import ARMS

from xtr_tf.evaluation.token_analysis import TokenAnalysis

_STYLES = {
    "xtr": {"color": "#d1495b"},
    "colbert": {"color": "#2e86ab", "linestyle": "--"},
    "imputed": {"color": "#66a182", "linestyle": ":"},
}


def draw(analyses: Mapping[str, Mapping[str, Sequence[TokenAnalysis]]], tokens: int, path: Path) -> None:
    """Draws one row per dataset: gold tokens, identical tokens, similarities, MRR@10 against k'.

    Args:
        analyses: By dataset, then by arm, one per seed. Each seed is a line.
        tokens: Tokens of the pool.
        path: The SVG file.
    """
    figure, rows = plt.subplots(len(analyses), 4, figsize=(16, 3.4 * len(analyses)), squeeze=False)
    for axes, (dataset, arms) in zip(rows, analyses.items(), strict=True):
        for arm, seeds in arms.items():
            for number, analysis in enumerate(seeds):
                label = f"trained by {ARMS[arm]}" if number == 0 else None
                _draw_run(axes, analysis, tokens, {"label": label, "linewidth": 1, **_STYLES[arm]})
        axes[0].set(xlabel="rank of the token", ylabel="is of a gold document", ylim=0, title=dataset)
        axes[1].set(xlabel="rank of the token", ylabel="is the same piece", ylim=0)
        axes[2].set(xlabel="similarity of a retrieved token", ylabel="density")
        axes[3].set(xlabel="k' / tokens", ylabel="MRR@10 under f_XTR'", xscale="log", ylim=0)
        axes[3].axvline(PAPERS_SHARE, color="#808080", linewidth=1)
        axes[3].annotate(
            "the paper's 40,000\nof 484 million",
            (PAPERS_SHARE, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
        )
    rows[0][0].legend(frameon=False)
    for axis in rows.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_run(axes: Any, analysis: TokenAnalysis, tokens: int, style: Mapping[str, Any]) -> None:
    ranks = range(1, len(analysis.gold_probability) + 1)
    axes[0].plot(ranks, analysis.gold_probability, **style)
    axes[1].plot(ranks, analysis.lexical_probability, **style)
    axes[2].stairs(analysis.other_density, analysis.histogram_edges, **style)
    axes[3].plot(
        [k_prime / tokens for k_prime in analysis.k_prime_metrics],
        [metrics["MRR@10"] for metrics in analysis.k_prime_metrics.values()],
        marker="o",
        markersize=3,
        **style,
    )
