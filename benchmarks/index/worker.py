"""One measurement in a separate process, so that its peak memory is its own; prints one JSON line.

worker.py xtr_tf VECTORS OUT           build with xtr-tf
worker.py scann VECTORS OUT QUERIES    build with ScaNN's own builder at the same settings, and search
worker.py search INDEX OUT QUERIES     search an index of xtr-tf
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.index.rules import SEARCHED_SHARE, TOKENS_PER_K_PRIME, number_of_leaves, sample_size
from xtr_tf.runtime import peak_resident_bytes
from xtr_tf.vectors.store import TokenVectors

if TYPE_CHECKING:
    from xtr_tf.index.folder import TokenIndex
    from xtr_tf.scoring.token_hits import TokenHits

K_PRIME = 1_000
TOP_K = 10
#: Tokens whose leaves are compared with the exact search.
CHECKED = 20_000


def build_xtr_tf(vectors: Path, out: Path) -> dict[str, float]:
    from xtr_tf.index.build import build_index

    corpus = TokenVectors.open(vectors)
    start, start_cpu = time.perf_counter(), time.process_time()
    index = build_index(corpus, out, IndexConfig())
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - start_cpu,
        "peak_gb": _peak(),
        "bytes_per_token": index.num_bytes / index.num_tokens,
        **_assignment(corpus, index),
    }


def _assignment(corpus: TokenVectors, index: TokenIndex) -> dict[str, float]:
    """How many tokens are in their nearest leaf or one at most 1% farther, and how many centres it took."""
    from xtr_tf.index.kmeans import nearest_centres
    from xtr_tf.index.quantizer import trained_quantizer
    from xtr_tf.index.routing import FARTHER

    quantizer = trained_quantizer(index)
    assert quantizer is not None
    chosen = np.sort(np.random.default_rng(0).choice(corpus.num_tokens, CHECKED, replace=False))
    tokens, centres, router = corpus.take(chosen), quantizer.centres, quantizer.router
    found = np.linalg.norm(tokens - centres[index.array("cells")[chosen]], axis=1)
    exact = np.linalg.norm(tokens - centres[nearest_centres(tokens, centres)], axis=1)
    compared: float = len(centres)
    if router is not None:
        cells = nearest_centres(tokens, router.cells)
        compared = len(router.cells) + float(np.diff(router.offsets)[cells].mean())
    return {
        "nearest": float((found <= FARTHER * exact).mean()),
        "leaves": len(centres),
        "compared": compared,
    }


def build_scann(vectors: Path, out: Path, queries: Path) -> dict[str, float]:
    import tensorflow as tf
    from scann.scann_ops.py import scann_ops

    from xtr_tf.scoring.token_hits import hits_from_padded

    corpus = TokenVectors.open(vectors)
    settings = IndexConfig()
    leaves = number_of_leaves(corpus.num_tokens)
    start = time.perf_counter()
    dataset = np.concatenate([block for block, _ in corpus.blocks(1 << 16)])
    searcher = (
        scann_ops.builder(dataset, K_PRIME, "dot_product")
        .tree(
            num_leaves=leaves,
            num_leaves_to_search=_leaves(corpus.num_tokens),
            training_sample_size=sample_size(corpus.num_tokens, leaves),
            training_iterations=settings.kmeans_iterations,
            min_partition_size=1,  # as in ours; its default of 50 drops the leaves of rare words
        )
        .score_ah(settings.dims_per_block, anisotropic_quantization_threshold=settings.anisotropic_threshold)
        .build()
    )
    seconds = time.perf_counter() - start
    peak = _peak()
    rows = np.load(queries)
    found = searcher.search_batched(tf.constant(rows.reshape(-1, rows.shape[-1])))
    valid = tf.math.is_finite(found[1])
    _rank(hits_from_padded(tf.cast(found[0], tf.int32), found[1], valid), corpus, rows, out)
    return {"seconds": seconds, "peak_gb": peak}


def search(index_directory: Path, out: Path, queries: Path) -> dict[str, float]:
    import tensorflow as tf

    from xtr_tf.index.folder import TokenIndex
    from xtr_tf.index.searchers.opening import searcher_from_index

    index = TokenIndex.open(index_directory)
    rows = np.load(queries)
    hits = searcher_from_index(index).search(
        tf.constant(rows.reshape(-1, rows.shape[-1])),
        tf.constant(K_PRIME),
        tf.constant(_leaves(index.num_tokens)),
    )
    _rank(hits, index, rows, out)
    return {}


def _leaves(num_tokens: int) -> int:
    """The number of leaves that both engines search: the default of xtr-tf's index."""
    leaves = number_of_leaves(num_tokens)
    return max(round(SEARCHED_SHARE * leaves), -(-TOKENS_PER_K_PRIME * K_PRIME * leaves // num_tokens))


def _rank(hits: TokenHits, corpus: object, rows: np.ndarray, out: Path) -> None:
    import tensorflow as tf

    from xtr_tf.scoring.token_owners import TokenOwners
    from xtr_tf.scoring.xtr import score_documents

    mask = tf.ones(rows.shape[:2], tf.bool)
    owners = TokenOwners(corpus.document_of_token)  # type: ignore[attr-defined]
    count = corpus.num_documents  # type: ignore[attr-defined]
    np.save(out, score_documents(hits, mask, owners.look_up, count, tf.constant(TOP_K)).ordinals.numpy())


def _peak() -> float:
    return peak_resident_bytes() / 1e9


if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    action = {"xtr_tf": build_xtr_tf, "scann": build_scann, "search": search}[name]
    measured = action(*map(Path, paths))  # type: ignore[operator]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak_gb": _peak(), "cpu_seconds": usage.ru_utime + usage.ru_stime, **measured}))
