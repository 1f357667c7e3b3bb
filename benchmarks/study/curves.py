"""Measures the study's checkpoints: the learning curves of both arms, with the untrained model as floor.

    .venv/bin/python benchmarks/study/curves.py            # what is new; the rest is remembered
    .venv/bin/python benchmarks/study/curves.py --full     # last checkpoints, whole test sets

Every kept checkpoint is searched exactly, under f_XTR' and under f_ColBERT. There are dozens of them, so
queries and corpus are samples: every document judged for these queries, and others at random. Measurements
go to .bench/study/curves.jsonl, tables and a picture next to this file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from report import write_report

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document
from xtr_tf.collections.loading import load_datasets
from xtr_tf.config.loading import load_config
from xtr_tf.evaluation.encoder_model import LoadedEncoder
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.token_analysis import analyse_tokens
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.train import initial_encoder

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
STUDY = REPOSITORY / ".bench" / "study"
# Choices were made on fairytaleqa; no choice was based on the other two.
TEST_SETS = ("squad_dev_en", "scifact_en", "fairytaleqa_en")
K_PRIME = 1_000
QUERIES, DOCUMENTS = 200, 1_000
# Ranks over which the shares of gold and of identical tokens are averaged.
RANKS = 100


class Snapshot(NamedTuple):
    """A model to measure.

    Attributes:
        arm: `untrained`, `warm`, `xtr` or `colbert`.
        step: Updates of this arm.
        state: Its checkpoint, or None for the untrained model.
    """

    arm: str
    step: int
    state: Path | None


def main() -> None:
    """Measures what has not been measured yet, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="whole test sets, last checkpoint of each arm")
    parser.add_argument("--sets", nargs="+", choices=TEST_SETS, default=TEST_SETS)
    arguments = parser.parse_args()

    path = STUDY / ("full.jsonl" if arguments.full else "curves.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(record["arm"], record["step"], record["set"]) for record in records}
    collections = _collections(arguments.sets, whole=arguments.full)
    for snapshot in _last_of_each(_snapshots()) if arguments.full else _snapshots():
        missing = [name for name in collections if (snapshot.arm, snapshot.step, name) not in known]
        if not missing:
            continue
        encoder = _load(snapshot)
        for name in missing:
            record = {"arm": snapshot.arm, "step": snapshot.step, "set": name}
            record |= _measure(encoder, *collections[name])
            records.append(record)
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)
    write_report(records, HERE / ("full" if arguments.full else "curves"))


def _snapshots() -> Iterator[Snapshot]:
    yield Snapshot("untrained", 0, None)
    for arm in ("warm", "xtr", "colbert"):
        for folder in sorted((STUDY / arm / "checkpoints").glob("step_*")):
            yield Snapshot(arm, int(folder.name.removeprefix("step_")), folder / "state")


def _last_of_each(snapshots: Iterator[Snapshot]) -> list[Snapshot]:
    return list({snapshot.arm: snapshot for snapshot in snapshots}.values())


def _load(snapshot: Snapshot) -> LoadedEncoder:
    """The encoder of a snapshot; all have the shape and the vocabulary of the shared start."""
    encoder, tokenizer = _untrained()
    if snapshot.state is not None:
        weights = {name: variable.value for name, variable in encoder.canonical_variables().items()}
        status = tf.train.Checkpoint(weights=weights).read(str(snapshot.state))
        status.expect_partial().assert_existing_objects_matched()
    return LoadedEncoder(encoder, tokenizer)


def _untrained() -> tuple[Encoder, Tokenizer]:
    return initial_encoder(load_config(HERE / "warm.yaml"))


def _collections(names: list[str], whole: bool) -> dict[str, tuple[Dataset, list[Document]]]:
    """Queries and documents of each set."""
    collections = {}
    for name in names:
        (dataset,) = load_datasets([STUDY / "data" / "test" / name])
        documents = list(dataset.corpus)
        if not whole:
            dataset = dataset.sample(QUERIES, seed=0)
            documents = _sample_documents(dataset, documents)
        collections[name] = (dataclasses.replace(dataset, name=name), documents)
    return collections


def _sample_documents(dataset: Dataset, documents: list[Document]) -> list[Document]:
    judged = {key for query in dataset.queries for key in dataset.judgements[query.id]}
    others = [document.id for document in documents if document.id not in judged]
    others = random.Random(0).sample(others, min(len(others), max(0, DOCUMENTS - len(judged))))
    kept = judged.union(others)
    return [document for document in documents if document.id in kept]


def _measure(encoder: LoadedEncoder, dataset: Dataset, documents: list[Document]) -> dict[str, Any]:
    index = encoder.encode_documents(documents, dataset.name)
    queries = encoder.encode_queries([query.text for query in dataset.queries])
    analysis = analyse_tokens(ExactRetriever(index), dataset, queries, K_PRIME)
    return {
        "queries": len(dataset.queries),
        "documents": len(documents),
        "tokens": index.num_tokens,
        "xtr_mrr": analysis.imputation_metrics["top_k_prime"]["MRR@10"],
        "xtr_mrr_by_imputation": {
            name: metrics["MRR@10"] for name, metrics in analysis.imputation_metrics.items()
        },
        "colbert_mrr": analysis.colbert_metrics["MRR@10"],
        "gold_rate": sum(analysis.gold_probability[:RANKS]) / RANKS,
        "gold_rate_first": analysis.gold_probability[0],
        "lexical_rate": sum(analysis.lexical_probability[:RANKS]) / RANKS,
        "lexical_rate_first": analysis.lexical_probability[0],
    }


if __name__ == "__main__":
    main()
