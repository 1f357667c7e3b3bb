"""What pruning costs in quality: one encoder, one set of queries, documents with fewer and fewer tokens.

    .venv/bin/python benchmarks/index/pruning.py MODEL DATASET...

Searches exactly under f_XTR', and prints a Markdown table for each dataset. Norm thresholds are quantiles of
the norms in the first documents, because norms differ from model to model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document
from xtr_tf.collections.loading import load_datasets
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.evaluation.encoder_model import LoadedEncoder
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.metrics import measure
from xtr_tf.evaluation.run import Run
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder
from xtr_tf.model.tokenizer import Tokenizer

K_PRIME, DEPTH = 1_000, 100
METRICS = ("nDCG@10", "Recall@100")
NORM_SAMPLE = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="an encoder's directory")
    parser.add_argument("datasets", type=Path, nargs="+", help="BEIR folders")
    parser.add_argument("--queries", type=int, default=500, help="maximum number per dataset")
    arguments = parser.parse_args()
    encoder, tokenizer = load_encoder(arguments.model)
    for folder in arguments.datasets:
        (dataset,) = load_datasets([folder])
        documents = list(dataset.corpus)
        sample = dataset.sample(arguments.queries, seed=0)
        print(f"\n{folder.name}: {len(sample.queries)} queries, {len(documents):,} documents\n")
        print(f"| pruning | tokens | {' | '.join(METRICS)} |\n|---|---:|{'---:|' * len(METRICS)}")
        whole = 0
        for name, config in _variants(encoder, tokenizer, documents):
            loaded = LoadedEncoder(encoder, tokenizer, config)
            tokens, metrics = _measure(loaded, sample, documents)
            whole = whole or tokens
            values = " | ".join(f"{100 * metrics[metric]:.1f}" for metric in METRICS)
            print(f"| {name} | {tokens / whole:.0%} | {values} |", flush=True)


def _variants(
    encoder: Encoder, tokenizer: Tokenizer, documents: Sequence[Document]
) -> Iterator[tuple[str, EncodingConfig]]:
    yield "none", EncodingConfig()
    yield "`--skip-punctuation`", EncodingConfig(skip_punctuation=True)
    norms = _norms(encoder, tokenizer, [document.full_text for document in documents[:NORM_SAMPLE]])
    for share in (0.1, 0.25, 0.5):
        threshold = float(np.quantile(norms, share))
        yield f"`--min-norm {threshold:.3g}`", EncodingConfig(min_norm=threshold)
    for most in (128, 64):
        yield f"`--max-tokens {most}`", EncodingConfig(max_tokens=most)


def _norms(encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    ids = tokenizer.tokenize_documents(tf.constant(list(texts)))
    projected = encoder.projection(encoder.hidden_states(ids))
    return tf.norm(projected, axis=-1).numpy()[ids.numpy() != tokenizer.pad_id]


def _measure(
    encoder: LoadedEncoder, dataset: Dataset, documents: Sequence[Document]
) -> tuple[int, dict[str, float]]:
    index = encoder.encode_documents(documents, dataset.name)
    queries = encoder.encode_queries([query.text for query in dataset.queries])
    ranking, _ = ExactRetriever(index).search(queries, K_PRIME, DEPTH)
    ids = [query.id for query in dataset.queries]
    run = Run.from_arrays("pruned", ids, index.document_ids, ranking.ordinals, ranking.scores)
    values = measure(run, dataset.judgements, ids, METRICS)
    return index.num_tokens, {metric: float(own.mean()) for metric, own in values.items()}


if __name__ == "__main__":
    main()
