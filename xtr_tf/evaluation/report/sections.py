"""The words and tables of a report, as text for every output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from xtr_tf.evaluation.metrics import METRICS
from xtr_tf.evaluation.report import formatting as form
from xtr_tf.evaluation.summary import ALL_DATASETS
from xtr_tf.vectors.token_lengths import TokenLengths

Content = Mapping[str, Any]


def headline(content: Content) -> str:
    """One or two sentences that summarise the result."""
    labels = form.system_labels(content)
    rows = lead_rows(content)
    if not rows:
        return "The datasets are reported with different metrics; see the table of each."
    lead = rows[0]
    figure = form.figure(lead, "xtr", lead["metric"])
    assert figure
    where = f"on average over {lead['datasets']} datasets" if "datasets" in lead else f"on {lead['name']}"
    text = f"{labels['xtr']} reaches {form.points(figure['value'])} {lead['metric']} {where}"
    if not content["comparisons"]:
        return f"{text}."
    comparison = content["comparisons"][0]
    other = form.figure(lead, comparison["other"], lead["metric"])
    if other:
        text += f", {labels[comparison['other']]} {form.points(other['value'])}"
    verdicts = Counter(row["verdict"] for row in comparison["datasets"])
    total = sum(verdicts.values())
    if total < 2:
        return f"{text}."
    return (
        f"{text}. Of {total} datasets {labels['xtr']} is better than {labels[comparison['other']]} on "
        f"{verdicts['better']}, worse on {verdicts['worse']}, and not clearly different on "
        f"{verdicts['no clear difference']}."
    )


def lead_rows(content: Content) -> list[Content]:
    """The main rows: averages, the one over everything first, or the datasets if there are none."""
    averages = [row for row in content["averages"] if row["metric"]]
    averages.sort(key=lambda row: row["name"] != ALL_DATASETS)
    return averages or [row for row in content["datasets"] if row["metric"]]


def table_systems(content: Content) -> list[str]:
    """The systems in tables of figures, with BM25 by both analysers."""
    return [system["key"] for system in content["systems"] if system["key"] != "bm25"]


def language_systems(content: Content) -> list[str]:
    """The systems in a table by language, with BM25 by the analyser that suits each language."""
    hidden = ("bm25_words", "bm25_ngrams")
    return [system["key"] for system in content["systems"] if system["key"] not in hidden]


def metrics_of(content: Content) -> list[str]:
    """The metrics that any dataset was measured with, those that datasets are reported with first."""
    first = dict.fromkeys(row["metric"] for row in content["datasets"])
    measured = {
        metric for row in content["datasets"] for figures in row["figures"].values() for metric in figures
    } - {"Judged@10"}
    return [*first, *(metric for metric in METRICS if metric in measured and metric not in first)]


def imputation_rows(content: Content) -> list[list[str]]:
    """Means over datasets of the metrics of each imputation."""
    analyses = _analyses(content)
    rows = []
    for key in analyses[0]["imputation_metrics"] if analyses else ():
        means = [
            form.points(
                float(np.mean([analysis["imputation_metrics"][key][metric] for analysis in analyses]))
            )
            for metric in ("MRR@10", "nDCG@10", "Recall@100")
        ]
        rows.append([form.imputation(key), *means])
    return rows


#: Header of `cost_rows`.
COST_HEADER = (
    *("", "n", "m", "r", "candidates", "f_ColBERT", "f_XTR′", "f_ColBERT / f_XTR′"),
    "vectors that f_ColBERT reads",
)


def cost_rows(content: Content) -> list[list[str]]:
    """Lengths, candidates and operations of every dataset that was analysed."""
    return [
        [
            row["name"],
            f"{cost['query_tokens']:.1f}",
            f"{cost['document_tokens']:.1f}",
            f"{cost['retrieved_tokens']:.1f}",
            form.count(cost["candidates"]),
            form.operations(cost["colbert_flops"]),
            form.operations(cost["xtr_flops"]),
            f"{form.count(cost['ratio'])}×",
            form.megabytes(cost["gathered_bytes"]),
        ]
        for row in content["datasets"]
        if row["analysis"] and (cost := row["analysis"]["cost"])
    ]


def caveat_rows(content: Content) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what is missing, empty or not judged."""
    header = [
        "",
        "documents",
        "records left out",
        "queries",
        "not sampled",
        "without judgements",
        "judged, no text",
        "without relevant documents",
        "relevant documents missing",
        "empty results",
        "found, not in corpus",
        "judged@10",
    ]
    rows = []
    for row in content["datasets"]:
        caveats = row["honesty"]
        judged = form.figure(row, "xtr", "Judged@10")
        left_out = ", ".join(f"{count} {reason}" for reason, count in caveats["records_left_out"].items())
        rows.append(
            [
                row["name"],
                form.count(row["documents"]),
                left_out or "0",
                form.count(row["queries"]),
                form.count(caveats["queries_not_sampled"]),
                form.count(caveats["queries_without_judgements"]),
                form.count(caveats["judged_queries_without_text"]),
                form.count(caveats["queries_without_relevant_documents"]),
                form.count(caveats["relevant_documents_missing"]),
                _by_system(content, caveats["empty_results"]),
                _by_system(content, caveats["documents_not_in_corpus"]),
                f"{form.points(judged['value'])}%" if judged else "–",
            ]
        )
    return header, rows


def settings_rows(content: Content) -> list[list[str]]:
    """How the evaluation was done."""
    settings = content["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    machine = content["machine"]
    depths = sorted({row["depth"] for row in content["datasets"]})
    lengths = TokenLengths.of_settings(settings)
    return [
        ["model", f"{content['model']['name']} ({content['model']['kind']})"],
        *([["compared with", content["baseline"]["name"]]] if content["baseline"] else []),
        *([system["label"], system["description"]] for system in content["systems"]),
        *(
            [["lengths of vectors", "penalty {:g}, bonus {:g}".format(*lengths)]]
            if not lengths.are_one
            else []
        ),
        ["documents ranked", " or ".join(form.count(depth) for depth in depths) + " of each query"],
        ["intervals", "95%, percentile bootstrap over queries, 1,000 samples"],
        ["significance", "paired randomisation test over queries, 10,000 samples, Holm's adjustment"],
        ["token analysis", f"{settings['analysis_queries']} queries of each dataset, exact search"],
        ["seed", str(settings["seed"])],
        ["machine", f"{machine['processor']}, {machine['cores']} cores"],
        ["versions", versions],
        ["measured", f"{content['created']}, in {form.duration(content['seconds'])}"],
    ]


def _by_system(content: Content, counts: Mapping[str, int]) -> str:
    labels = form.system_labels(content)
    shown = [f"{labels[key]} {form.count(count)}" for key, count in counts.items() if count and key in labels]
    return ", ".join(shown) or "0"


def _analyses(content: Content) -> list[Content]:
    return [row["analysis"] for row in content["datasets"] if row["analysis"]]
