"""Fuses the model with BM25 over character n-grams, from the runs of an evaluation, and prints a table.

    .venv/bin/python benchmarks/mxtr/fusion.py .bench/mxtr/report .bench/study/data/test

`xtr-tf evaluate --fusion` takes the BM25 that suits a language, which is that over words where words
are written apart; n-grams do better on these sets.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from xtr_tf.collections.loading import load_datasets
from xtr_tf.evaluation.metrics import measure
from xtr_tf.evaluation.run import Run, reciprocal_rank_fusion

METRIC, DEPTH = "nDCG@10", 100


def main() -> None:
    report, data = map(Path, sys.argv[1:])
    print("| | mXTR | BM25, character n-grams | both fused |")
    print("|---|---:|---:|---:|")
    for name in (own["name"] for own in json.loads((report / "report.json").read_text())["datasets"]):
        file = name.replace("/", "--")
        runs = [_read(report / "runs" / f"{file}.{system}.trec.gz") for system in ("xtr", "bm25_ngrams")]
        runs.append(reciprocal_rank_fusion("fusion", runs, DEPTH))
        (dataset,) = load_datasets([data / name])
        values = [measure(run, dataset.judgements, list(runs[0]), (METRIC,))[METRIC].mean() for run in runs]
        print(f"| {name} | {' | '.join(f'{100 * value:.1f}' for value in values)} |", flush=True)


def _read(path: Path) -> Run:
    """Reads a TREC run; its lines stand by falling score."""
    rankings: dict[str, tuple[list[str], list[float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            query, _, document, _, score, _ = line.split()
            documents, scores = rankings.setdefault(query, ([], []))
            documents.append(document)
            scores.append(float(score))
    return Run(path.name, rankings)


if __name__ == "__main__":
    main()
