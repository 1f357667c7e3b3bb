"""`xtr-tf evaluate`: measure a model, its baselines and its token retrieval, and write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from xtr_tf.cli import options
from xtr_tf.cli.progress import Quiet, next_command


def evaluate(
    model: Annotated[Path, typer.Argument(help="An encoder's directory, or an exported model (version).")],
    dataset: Annotated[
        list[Path],
        typer.Option(
            help="Folder of a dataset (BEIR, MS MARCO, MIRACL, LoTTE or DPR layout) or of several; "
            "may be repeated."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report; an earlier report there is replaced.")],
    baseline: Annotated[
        Path | None, typer.Option(help="Another model, or an earlier report's folder, to compare with.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which judgements to use; by default the layout's test split.")
    ] = None,
    k_prime: Annotated[int, typer.Option(help="Tokens that each query token retrieves.")] = 1_000,
    token_weights: Annotated[
        str, typer.Option(help="Weights of query tokens: none or idf; an exported model's own if empty.")
    ] = "",
    length_penalty: options.LengthPenalty = 0.0,
    repetition_bonus: options.RepetitionBonus = 0.0,
    depth: Annotated[
        int, typer.Option(help="Documents ranked per query; 0: 100, or 1,000 in a large corpus.")
    ] = 0,
    max_queries: Annotated[int, typer.Option(help="Queries to sample per dataset; 0: all.")] = 0,
    bm25: Annotated[bool, typer.Option(help="Run the BM25 baselines.")] = True,
    fusion: Annotated[bool, typer.Option("--fusion", help="Also measure XTR and BM25 combined.")] = False,
    alpha: Annotated[
        float, typer.Option(help="Weight of BM25 in it, unless the exported model has one.")
    ] = 0.5,
    analysis_queries: Annotated[
        int, typer.Option(help="Queries per dataset whose tokens are analysed; 0: none.")
    ] = 100,
    exact_queries: Annotated[
        int, typer.Option(help="For an exported model: queries also searched exactly; 0: none.")
    ] = 100,
    examples: Annotated[int, typer.Option(help="Worked examples per dataset.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed of samples and resampling.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Measure a model on datasets; write a report (HTML, Markdown, JSON), runs and values per query."""
    from xtr_tf.collections.loading import load_datasets
    from xtr_tf.evaluation.evaluate import evaluate_model
    from xtr_tf.evaluation.evaluator import EvaluationSettings
    from xtr_tf.progress import shown
    from xtr_tf.retriever.collection_file import COLLECTION_FILE
    from xtr_tf.retriever.versions import latest_version

    settings = EvaluationSettings(
        k_prime=k_prime,
        token_weights=token_weights,
        length_penalty=length_penalty,
        repetition_bonus=repetition_bonus,
        depth=depth,
        max_queries=max_queries,
        bm25=bm25,
        fusion=fusion,
        alpha=alpha,
        analysis_queries=analysis_queries,
        exact_queries=exact_queries,
        examples=examples,
        seed=seed,
    )
    datasets = load_datasets(dataset, split)
    with shown(quiet=quiet):
        content = evaluate_model(
            model, datasets, out, settings, baseline, progress=lambda line: typer.echo(line, err=True)
        )
    _print_summary(content)
    typer.echo(f"Report: {out / 'report.html'}")
    if (model / COLLECTION_FILE).is_file():
        served = f"--collection {model / COLLECTION_FILE} --partition 0=HOST:PORT"
    elif not (model / "encoder.json").is_file():
        served = f"--model-base {latest_version(model).parent}"
    else:
        served = ""
    next_command(f"xtr-tf serve {served}" if served else f"xtr-tf build CORPUS --model {model} --out MODELS")


def _print_summary(content: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from xtr_tf.evaluation.report import formatting
    from xtr_tf.evaluation.report.sections import headline, table_systems

    labels = {system["key"]: system["label"] for system in content["systems"]}
    systems = table_systems(content)
    table = Table(box=None, pad_edge=False)
    for title in ("", "metric", "queries"):
        table.add_column(title, justify="right" if title == "queries" else "left")
    for system in systems:
        table.add_column(Text(labels[system]), justify="right")
    for row in (*content["datasets"], *content["averages"]):
        best = formatting.best_systems(row, systems, row["metric"])
        cells = []
        for system in systems:
            found = formatting.figure(row, system, row["metric"])
            value = formatting.points(found["value"] if found else None)
            cells.append(f"[bold]{value}[/]" if system in best else value)
        table.add_row(Text(row["name"]), row["metric"], formatting.count(row["queries"]), *cells)
    console = Console()
    console.print(table)
    for row in (row for row in content["datasets"] if row["exact_check"]):
        check, metric = row["exact_check"], row["metric"]
        if check["note"]:
            console.print(f"{row['name']}: no exact figure, {check['note']}", highlight=False, markup=False)
            continue
        index, exact = (formatting.points(check["metrics"][own][metric]) for own in ("index", "exact_xtr"))
        overlap = formatting.points(check["overlap_at_10"])
        console.print(
            f"{row['name']}: {metric} {index} by the index, {exact} by exact search "
            f"({check['queries']} queries, overlap@10 {overlap})",
            highlight=False,
            markup=False,
        )
    console.print(headline(content), highlight=False, markup=False)
