"""`make claims`: the paper's claims on real data, with PASS or FAIL for each.

Two models of the same recipe, one trained with f_XTR and one with f_ColBERT (benchmarks/study trains them),
are searched exactly on test sets that no choice was based on, and so is a grid of shorter runs
(`train_grid.sh`) if it exists. Test sets are small, so whatever depends on k' is checked at two values: the
same share of all tokens as the paper's k' on MS MARCO, and our default. Prints the tables, writes `claims.md`
and `claims.svg` next to this file, and ends with one RESULT line. What fails is reported as failing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from claims import METRICS, Claim, check_retrieval, check_scoring
from figures import draw
from grid import Grid, check_grid, grid_runs, grid_table

from xtr_tf.collections.loading import load_datasets
from xtr_tf.evaluation.encoder_model import LoadedEncoder
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.token_analysis import TokenAnalysis, analyse_tokens

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
STUDY = REPOSITORY / ".bench" / "study"
MODELS = ("xtr", "colbert")
LABELS = {"xtr": "f_XTR", "colbert": "f_ColBERT"}
TEST_SETS = ("squad_dev_en", "scifact_en")
K_PRIME = 1_000
#: The paper's k' divided by the tokens of MS MARCO: 8.8 million passages of 55 tokens, as in the paper.
PAPERS_SHARE = 40_000 / (8_800_000 * 55)

#: For each test set and model: at the paper's share of its tokens, and at `K_PRIME`.
Analyses = Mapping[str, Mapping[str, tuple[TokenAnalysis, TokenAnalysis]]]


def main() -> None:
    """Analyses both models on every test set, and checks the claims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=STUDY, help="with xtr/encoder, colbert/encoder")
    parser.add_argument("--data", type=Path, default=STUDY / "data" / "test", help="folder of the test sets")
    parser.add_argument("--queries", type=int, default=500, help="maximum number per test set; 0 for all")
    arguments = parser.parse_args()
    missing = [name for name in MODELS if not (arguments.models / name / "encoder").is_dir()]
    if missing:
        raise SystemExit(
            f"claims: there is no model {', '.join(missing)} in {arguments.models}; train both with "
            "benchmarks/study/run.sh first."
        )
    analyses = _analyse(arguments.models, arguments.data, arguments.queries)
    sections, every = [], []
    for name, models in analyses.items():
        few, many = ({model: own[which] for model, own in models.items()} for which in (0, 1))
        at_share = list(check_scoring(few["xtr"], few["colbert"]))
        at_default = [
            *check_scoring(many["xtr"], many["colbert"]),
            *check_retrieval(many["xtr"], many["colbert"]),
        ]
        sections += [_section(name, few, at_share), _section(name, many, at_default)]
        every += [*at_share, *at_default]
    if runs := grid_runs(arguments.models / "grid"):
        grid = {key: _k_prime_curve(run, arguments.data, arguments.queries) for key, run in runs.items()}
        of_grid = list(check_grid(grid))
        sections.append(_grid_section(grid, of_grid))
        every += of_grid
    text = "\n".join(sections)
    print(text)
    (HERE / "claims.md").write_text(text, encoding="utf-8")
    draw(
        {name: {model: own[1] for model, own in models.items()} for name, models in analyses.items()},
        HERE / "claims.svg",
    )
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"RESULT claims passed={sum(claim.passed for claim in every)} of={len(every)}")


def _analyse(models: Path, data: Path, most_queries: int) -> Analyses:
    analyses: dict[str, dict[str, tuple[TokenAnalysis, TokenAnalysis]]] = {name: {} for name in TEST_SETS}
    for model in MODELS:
        encoder = LoadedEncoder.load(models / model / "encoder")
        for name in TEST_SETS:
            analyses[name][model] = _analyse_one(encoder, data / name, most_queries)
    return analyses


def _analyse_one(
    encoder: LoadedEncoder, data: Path, most_queries: int
) -> tuple[TokenAnalysis, TokenAnalysis]:
    (dataset,) = load_datasets([data])
    documents = list(dataset.corpus)
    dataset = dataset.sample(most_queries, seed=0)
    index = encoder.encode_documents(documents, data.name)
    queries = encoder.encode_queries([query.text for query in dataset.queries])
    retriever = ExactRetriever(index)
    few = max(1, round(PAPERS_SHARE * index.num_tokens))
    return analyse_tokens(retriever, dataset, queries, few), analyse_tokens(
        retriever, dataset, queries, K_PRIME
    )


def _k_prime_curve(run: Path, data: Path, most_queries: int) -> dict[int, float]:
    _, analysis = _analyse_one(LoadedEncoder.load(run), data / TEST_SETS[0], most_queries)
    return {k_prime: metrics["MRR@10"] for k_prime, metrics in analysis.k_prime_metrics.items()}


def _section(name: str, models: Mapping[str, TokenAnalysis], claims: list[Claim]) -> str:
    """The imputation table as the paper prints it, and the claims."""
    lines = [
        f"### {name}, k' = {models['xtr'].k_prime:,}",
        "",
        f"{models['xtr'].queries:,} queries.",
        "",
        f"| trained by | scored by | imputation | {' | '.join(METRICS)} |",
        f"|---|---|---|{'---:|' * len(METRICS)}",
    ]
    for model, analysis in models.items():
        for imputation, metrics in analysis.imputation_metrics.items():
            lines.append(f"| {LABELS[model]} | f_XTR' | {imputation} | {_values(metrics)} |")
        lines.append(f"| {LABELS[model]} | f_ColBERT | | {_values(analysis.colbert_metrics)} |")
    return "\n".join([*lines, "", *_claims_table(claims), ""])


def _grid_section(grid: Grid, claims: list[Claim]) -> str:
    title = [f"### Batch size, k_train and k' ({TEST_SETS[0]}, MRR@10 under f_XTR')", ""]
    return "\n".join([*title, *grid_table(grid), "", *_claims_table(claims), ""])


def _claims_table(claims: list[Claim]) -> list[str]:
    rows = [
        f"| {claim.statement} | {'PASS' if claim.passed else 'FAIL'} | {claim.evidence} |" for claim in claims
    ]
    return ["| claim | | figures |", "|---|---|---|", *rows]


def _values(metrics: Mapping[str, float]) -> str:
    return " | ".join(f"{metrics[metric]:.3f}" for metric in METRICS)


if __name__ == "__main__":
    main()
