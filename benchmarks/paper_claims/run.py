"""`make claims`: the paper's claims on real data, each with PASS, FAIL or "not at this scale".

`train_arms.sh` trains three arms from one start: with f_XTR, with f_ColBERT, and with f_XTR', the score that
search ranks by. Every run is searched exactly in one pool of ten million tokens, at the paper's share of
them, and so is a grid of other batch sizes and k_train (`train_grid.sh`) if it exists. Analyses are kept in
`.bench/claims/analyses`: if the command was stopped, run it again. Prints the tables, writes `claims.md` and
`claims.svg`, and ends with one RESULT line. What fails is reported as failing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from analyses import analyses_of
from arms import finished_runs
from claim_tables import dataset_section, grid_section, result
from claims import Claim, check
from figures import draw
from grid import check_grid, grid_runs
from pool import Pool, build_pool
from training_pairs import MEASURED

from xtr_tf.config.model import Dtype
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.evaluation.token_analysis import TokenAnalysis
from xtr_tf.vectors.document_encoder import TokenCounter

HERE = Path(__file__).resolve().parent
BENCH = HERE.parents[1] / ".bench"
TOKENS, QUERIES = 10_000_000, 200

#: By test set, then by arm, one per seed.
Analyses = Mapping[str, Mapping[str, list[TokenAnalysis]]]


def main() -> None:
    """Analyses all runs in the pool, and checks the claims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=BENCH / "claims", help="folder that train_arms.sh made")
    parser.add_argument("--data", type=Path, default=BENCH / "study" / "data" / "test", help="test sets")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="least number of tokens of the pool")
    parser.add_argument("--queries", type=int, default=QUERIES, help="maximum per test set; 0 for all")
    parser.add_argument(
        "--dtype",
        choices=get_args(Dtype),
        default="float32",
        help="policy of the encoder; mixed_bfloat16 takes less time on processors that have it",
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder for claims.md and claims.svg")
    arguments = parser.parse_args()
    try:
        _measure(arguments)
    except InputError as error:
        raise SystemExit(f"claims: {error}") from error


def _measure(arguments: argparse.Namespace) -> None:
    runs = finished_runs(arguments.runs)
    seeds = list(runs["xtr"])
    counter = TokenCounter.load(runs["xtr"][seeds[0]], EncodingConfig())
    training = arguments.runs / "train"
    pool = build_pool(arguments.data, training, counter, arguments.tokens, arguments.queries)
    kept = arguments.runs / "analyses"
    # All arms of a seed come one after the other, so that whatever is there at a stop can be compared.
    found = {
        (arm, seed): analyses_of(runs[arm][seed], pool, MEASURED, kept, arguments.dtype)
        for seed in seeds
        for arm in runs
    }
    analyses: Analyses = {
        name: {arm: [found[arm, seed][name] for seed in seeds] for arm in runs} for name in MEASURED
    }
    sections, every = [_head(pool, seeds, arguments.dtype)], []
    for name, arms in analyses.items():
        claims = list(check(arms["xtr"], arms["colbert"]))
        sections.append(dataset_section(name, arms, claims, list(check(arms["imputed"], arms["colbert"]))))
        every += claims
    if (arguments.runs / "grid").is_dir():
        section, claims = _grid(arguments.runs / "grid", pool, kept, arguments.dtype)
        sections.append(section)
        every += claims
    text = "\n".join(sections)
    print(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "claims.md").write_text(text, encoding="utf-8")
    draw(analyses, pool.tokens, arguments.out / "claims.svg")
    print(f"load {os.getloadavg()[0]:.1f}")
    print(result(every, pool.tokens))


def _head(pool: Pool, seeds: list[int], dtype: Dtype) -> str:
    asked = ", ".join(f"{len(dataset.queries)} of {name}" for name, dataset in pool.datasets.items())
    return (
        f"{len(pool.documents):,} documents with {pool.tokens:,} tokens; queries: {asked}; {len(seeds)} "
        f"seeds of each\narm, encoded in {dtype}. Figures are means over seeds, with 95% intervals "
        "(Student's t) in brackets; arms are\ncompared seed by seed. A claim passes if the intervals of all "
        "its differences are on the claimed side, and fails if\none is on the other side.\n"
    )


def _grid(folder: Path, pool: Pool, kept: Path, dtype: Dtype) -> tuple[str, list[Claim]]:
    name = MEASURED[0]
    grid = {}
    for key, run in grid_runs(folder).items():
        curve = analyses_of(run, pool, [name], kept, dtype)[name].k_prime_metrics
        grid[key] = {k_prime: metrics["MRR@10"] for k_prime, metrics in curve.items()}
    claims = list(check_grid(grid))
    title = f"Batch size, k_train and k' ({name}, MRR@10 under f_XTR', one run each)"
    return grid_section(title, grid, claims), claims


if __name__ == "__main__":
    main()
