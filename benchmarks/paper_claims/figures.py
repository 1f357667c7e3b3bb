"""The figures of the paper's analysis, for two models side by side, in colours that differ in grey, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from xtr_tf.evaluation.token_analysis import TokenAnalysis

_LABELS = {"xtr": "trained by f_XTR", "colbert": "trained by f_ColBERT"}
_STYLES = {"xtr": {"color": "#d1495b"}, "colbert": {"color": "#2e86ab", "linestyle": "--"}}


def draw(analyses: Mapping[str, Mapping[str, TokenAnalysis]], path: Path) -> None:
    """Draws one row per dataset: gold tokens, identical tokens, similarities, MRR@10 against k'.

    Args:
        analyses: By dataset, then by model (`xtr`, `colbert`).
        path: The SVG file.
    """
    figure, rows = plt.subplots(len(analyses), 4, figsize=(16, 3.4 * len(analyses)), squeeze=False)
    for axes, (dataset, models) in zip(rows, analyses.items(), strict=True):
        for name, analysis in models.items():
            style = {"label": _LABELS[name], **_STYLES[name]}
            ranks = range(1, len(analysis.gold_probability) + 1)
            axes[0].plot(ranks, analysis.gold_probability, **style)
            axes[1].plot(ranks, analysis.lexical_probability, **style)
            axes[2].stairs(analysis.other_density, analysis.histogram_edges, **style)
            axes[3].plot(
                list(analysis.k_prime_metrics),
                [metrics["MRR@10"] for metrics in analysis.k_prime_metrics.values()],
                marker="o",
                markersize=3,
                **style,
            )
        axes[0].set(xlabel="rank of the token", ylabel="is of a gold document", ylim=0, title=dataset)
        axes[1].set(xlabel="rank of the token", ylabel="is the same piece", ylim=0)
        axes[2].set(xlabel="similarity of a retrieved token", ylabel="density")
        axes[3].set(xlabel="k'", ylabel="MRR@10 under f_XTR'", xscale="log", ylim=0)
    rows[0][0].legend(frameon=False)
    for axis in rows.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
