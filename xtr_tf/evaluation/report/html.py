"""The report as one self-contained HTML page with style, plots and tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from xtr_tf.evaluation.report import formatting as form
from xtr_tf.evaluation.report import sections
from xtr_tf.evaluation.report.markdown import render_markdown
from xtr_tf.evaluation.report.plots import draw_plots

Content = Mapping[str, Any]


def render_html(content: Content) -> str:
    """Writes the whole page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("xtr_tf.evaluation.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html.jinja")
    caveat_header, caveats = sections.caveat_rows(content)
    return template.render(
        content=content,
        form=form,
        labels=form.system_labels(content),
        plots={name: Markup(svg) for name, svg in draw_plots(content).items()},  # noqa: S704 -- drawn here
        headline=sections.headline(content),
        cards=_cards(content),
        metrics=sections.metrics_of(content),
        systems=sections.table_systems(content),
        language_systems=sections.language_systems(content),
        imputations=sections.imputation_rows(content),
        costs=sections.cost_rows(content),
        cost_header=sections.COST_HEADER,
        caveat_header=caveat_header,
        caveats=caveats,
        settings=sections.settings_rows(content),
    )


def _cards(content: Content) -> list[dict[str, str]]:
    """The few figures at the top: title, value, detail, and a verdict if there is one."""
    labels = form.system_labels(content)
    cards = [_figure_card(row) for row in sections.lead_rows(content)[:2]]
    for comparison in content["comparisons"]:
        cards += _difference_card(content, comparison, labels)
    if content["comparisons"]:
        comparison = content["comparisons"][0]
        verdicts = Counter(row["verdict"] for row in comparison["datasets"])
        better, worse = verdicts["better"], verdicts["worse"]
        total = sum(verdicts.values())
        title = f"Better than {labels[comparison['other']]} on"
        detail = f"worse on {worse}, no clear difference on {total - better - worse}"
        if total > 1:
            cards.append(_card(title, f"{better} of {total}", "datasets", detail))
    ratios = [row["analysis"]["cost"]["ratio"] for row in content["datasets"] if row["analysis"]]
    if ratios:
        detail = "than ColBERT scoring, by the paper's formulas; median of datasets"
        cards.append(_card("Operations to score a query", f"{form.count(median(ratios))}×", "fewer", detail))
    return cards


def _figure_card(row: Content) -> dict[str, str]:
    figure = form.figure(row, "xtr", row["metric"])
    assert figure
    interval = f"95% interval {form.between(figure['low'], figure['high'])}"
    return _card(row["name"], form.points(figure["value"]), row["metric"], interval)


def _difference_card(
    content: Content, comparison: Content, labels: Mapping[str, str]
) -> list[dict[str, str]]:
    lead = sections.lead_rows(content)[:1]
    rows = [*comparison["averages"], *comparison["datasets"]]
    for row in (row for row in rows if lead and row["name"] == lead[0]["name"]):
        system = "" if comparison["system"] == "xtr" else f"{labels[comparison['system']]} "
        title = f"{row['name']}, {system}against {labels[comparison['other']]}"
        interval = f"95% interval {form.between(row['low'], row['high'], signed=True)}"
        return [_card(title, form.signed_points(row["value"]), row["metric"], interval, row["verdict"])]
    return []


def _card(title: str, value: str, unit: str, detail: str, verdict: str = "") -> dict[str, str]:
    return {"title": title, "value": value, "unit": unit, "detail": detail, "verdict": verdict}


def write_report(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes all three forms of a report into a folder.

    Args:
        folder: An existing folder.
        content: What `report.json` holds.
    """
    data = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / "report.json").write_text(f"{data}\n", encoding="utf-8")
    # The other two are made from the JSON file, so that an old report can be rendered again.
    stored = json.loads(data)
    (folder / "report.md").write_text(render_markdown(stored), encoding="utf-8")
    (folder / "report.html").write_text(render_html(stored), encoding="utf-8")
