"""The report as Markdown: the same tables, without plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xtr_tf.evaluation.report import formatting as form
from xtr_tf.evaluation.report.sections import (
    COST_HEADER,
    caveat_rows,
    cost_rows,
    headline,
    imputation_rows,
    language_systems,
    metrics_of,
    settings_rows,
    table_systems,
)

Content = Mapping[str, Any]


def render_markdown(content: Content) -> str:
    """Writes the whole report."""
    parts = [
        f"# {content['model']['name']}: retrieval quality\n",
        f"{headline(content)}\n",
        _quality(content),
        *(_comparison(content, comparison) for comparison in content["comparisons"]),
        _exact_checks(content),
        _analysis(content),
        _examples(content),
        _caveats(content),
        _settings(content),
    ]
    return "\n".join(part for part in parts if part)


def _quality(content: Content) -> str:
    systems = table_systems(content)
    labels = form.system_labels(content)
    parts = [
        "## Quality\n",
        "Points of 100; the best of a row in bold; 95% confidence intervals in brackets.\n",
    ]
    for metric in metrics_of(content):
        rows = [row for row in (*content["datasets"], *content["averages"]) if _has(row, systems, metric)]
        table = []
        for row in rows:
            best = form.best_systems(row, systems, metric)
            cells = [_figure(form.figure(row, system, metric), system in best) for system in systems]
            table.append([row["name"], form.count(row["queries"]), *cells])
        parts += [f"### {metric}\n", _table(["", "queries", *(labels[key] for key in systems)], table)]
    return "\n".join([*parts, *_languages(content)])


def _languages(content: Content) -> list[str]:
    """The figures of each language, in the metric that it is reported with."""
    systems, labels = language_systems(content), form.system_labels(content)
    table = []
    for row in content["languages"]:
        best = form.best_systems(row, systems, row["metric"])
        cells = [_figure(form.figure(row, system, row["metric"]), system in best) for system in systems]
        table.append([form.language(row["name"]), row["metric"], form.count(row["queries"]), *cells])
    if not table:
        return []
    return ["### By language\n", _table(["", "metric", "queries", *(labels[key] for key in systems)], table)]


def _comparison(content: Content, comparison: Content) -> str:
    labels = form.system_labels(content)
    title = f"{labels[comparison['system']]} compared with {labels[comparison['other']]}"
    header = ["", "metric", "queries", "difference", "95% interval", "p", "adjusted p", "verdict"]
    parts = [f"## {title}\n"]
    for kind, name in (("averages", "Averages"), ("languages", "Languages"), ("datasets", "Datasets")):
        rows = [
            [
                form.language(row["name"]) if kind == "languages" else row["name"],
                row["metric"],
                form.count(row["queries"]),
                form.signed_points(row["value"]),
                form.between(row["low"], row["high"], signed=True),
                form.p_text(row["p"]),
                form.p_text(row["adjusted_p"]),
                f"{form.VERDICT_SIGNS[row['verdict']]} {row['verdict']}",
            ]
            for row in comparison[kind]
        ]
        if rows:
            parts += [f"### {name}\n", _table(header, rows)]
    parts.append("Paired randomisation test over queries; p-values adjusted by Holm's rule within a table.\n")
    return "\n".join(parts)


def _exact_checks(content: Content) -> str:
    checked = [row for row in content["datasets"] if row["exact_check"]]
    if not checked:
        return ""
    rows = []
    for row in checked:
        check, metric = row["exact_check"], row["metric"]
        if check["note"]:
            rows.append([row["name"], "–", "–", "–", "–", check["note"]])
            continue
        figures = [
            form.points(check["metrics"][search][metric])
            for search in ("index", "exact_xtr", "exact_colbert")
        ]
        cut = f"{check['cut_documents']} documents may have been cut" if check["cut_documents"] else ""
        overlap = f"overlap@10 {form.points(check['overlap_at_10'])}"
        rows.append([row["name"], form.count(check["queries"]), *figures, f"{overlap}; {cut}".rstrip("; ")])
    header = ["", "queries", "own index", "exact f_XTR′", "exact f_ColBERT", "notes"]
    return f"## The index next to exact search\n\n{_table(header, rows)}"


def _analysis(content: Content) -> str:
    costs = cost_rows(content)
    if not costs:
        return ""
    return "\n".join(
        [
            "## Token retrieval\n",
            "### Imputation of missing similarities\n",
            _table(["imputation", "MRR@10", "nDCG@10", "Recall@100"], imputation_rows(content)),
            "### Operations to score a query's candidates (the paper's formulas)\n",
            _table(COST_HEADER, costs),
        ]
    )


def _examples(content: Content) -> str:
    if not content["examples"]:
        return ""
    parts = ["## Worked examples\n"]
    for example in content["examples"]:
        rows = [
            [
                str(token["rank"]),
                f"{token['score']:.3f}",
                f"{token['before']}**{token['token'] or '⏎'}**{token['after']}",
                "yes" if token["is_relevant"] else "no",
            ]
            for token in example["tokens"]
        ]
        parts += [
            f"**{_cell(example['query'])}** ({example['dataset']}): token “{_cell(example['token'])}”, "
            f"{100 * example['same_piece']:.0f}% of its first 100 are the same piece\n",
            _table(["rank", "similarity", "context", "relevant"], rows),
        ]
    return "\n".join(parts)


def _caveats(content: Content) -> str:
    header, rows = caveat_rows(content)
    return f"## What the figures do not say\n\n{_table(header, rows)}"


def _settings(content: Content) -> str:
    return f"## How it was measured\n\n{_table(['', ''], settings_rows(content))}"


def _figure(figure: Mapping[str, float] | None, best: bool) -> str:
    if figure is None:
        return "–"
    value = form.points(figure["value"])
    shown = f"**{value}**" if best else value
    return f"{shown} [{form.between(figure['low'], figure['high'])}]"


def _has(row: Content, systems: Iterable[str], metric: str) -> bool:
    return any(form.figure(row, system, metric) for system in systems)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
