"""`make claims`: the paper's claims on real data, each with PASS, FAIL or "not at this scale".

`train_arms.sh` trains three arms from one start: with f_XTR, with f_ColBERT, and with f_XTR', the score that
search ranks by. Every run is searched exactly in one pool of ten million tokens, at the paper's share of
them. Analyses are kept in `.bench/claims/analyses`: if the command was stopped, run it again. Prints the
tables, writes `claims.md` and `claims.svg`, and ends with one RESULT line. What fails is reported as failing.

    make claims ARGS=--grid

searches the runs of `train_grid.sh` instead, which have other batch sizes and k_train, and writes `grid.md`.
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
    parser.add_argument("--grid", action="store_true", help="measure batch sizes and k_train instead")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for what is written")
    arguments = parser.parse_args()
    try:
        claims, tokens = _measure_grid(arguments) if arguments.grid else _measure(arguments)
    except InputError as error:
        raise SystemExit(f"claims: {error}") from error
    print(f"load {os.getloadavg()[0]:.1f}")
    print(result(claims, tokens, "claims-grid" if arguments.grid else "claims"))


def _measure(arguments: argparse.Namespace) -> tuple[list[Claim], int]:
    """Searches with all arms, and returns what was checked and the number of tokens."""
    runs = finished_runs(arguments.runs)
    seeds = list(runs["xtr"])
    pool = _pool(arguments, runs["xtr"][seeds[0]])
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
    _write(arguments.out / "claims.md", sections)
    draw(analyses, pool.tokens, arguments.out / "claims.svg")
    return every, pool.tokens


def _measure_grid(arguments: argparse.Namespace) -> tuple[list[Claim], int]:
    """Searches with the grid of batch sizes and k_train; returns the same."""
    runs = grid_runs(arguments.runs / "grid")
    pool = _pool(arguments, next(iter(runs.values())))
    name, kept = MEASURED[0], arguments.runs / "analyses"
    grid = {}
    for key, run in runs.items():
        curve = analyses_of(run, pool, [name], kept, arguments.dtype)[name].k_prime_metrics
        grid[key] = {k_prime: metrics["MRR@10"] for k_prime, metrics in curve.items()}
    claims = list(check_grid(grid))
    title = f"Batch size, k_train and k' ({name}, MRR@10 under f_XTR', one run each)"
    _write(arguments.out / "grid.md", [_pool_line(pool, arguments.dtype), grid_section(title, grid, claims)])
    return claims, pool.tokens


def _pool(arguments: argparse.Namespace, encoder: Path) -> Pool:
    counter = TokenCounter.load(encoder, EncodingConfig())
    training = arguments.runs / "train"
    return build_pool(arguments.data, training, counter, arguments.tokens, arguments.queries)


def _write(path: Path, sections: list[str]) -> None:
    text = "\n".join(sections)
    print(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _head(pool: Pool, seeds: list[int], dtype: Dtype) -> str:
    return (
        f"{_pool_line(pool, dtype)}{len(seeds)} seeds of each arm. Figures are means over seeds, with 95% "
        "intervals (Student's t) in brackets; arms are compared\nseed by seed. A claim passes if the "
        "intervals of all its differences are on the claimed side, and fails if one is on the\nother side.\n"
    )


def _pool_line(pool: Pool, dtype: Dtype) -> str:
    asked = ", ".join(f"{len(dataset.queries)} of {name}" for name, dataset in pool.datasets.items())
    documents = f"{len(pool.documents):,} documents with {pool.tokens:,} tokens"
    return f"{documents}; queries: {asked}; encoded in {dtype}.\n"


if __name__ == "__main__":
    main()
