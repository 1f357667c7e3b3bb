"""Google's XTR notebook: its ScaNN settings, k' = 40,000, documents scored in Python dictionaries."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from token_set import TokenSet, built, engine_main, measure, report, resident_bytes

LEAVES = (25, 50, 100, 200)
K_PRIME = 40_000


def build(tokens: TokenSet, folder: Path) -> None:
    from scann.scann_ops.py import scann_ops_pybind

    vectors = tokens.vectors.astype(np.float32)
    start = time.perf_counter()
    searcher = (
        scann_ops_pybind.builder(vectors, 10, "dot_product")
        .tree(
            num_leaves=min(2_000, len(vectors)),
            num_leaves_to_search=100,
            training_sample_size=min(250_000, len(vectors)),
        )
        .score_ah(1, anisotropic_quantization_threshold=0.1)
        .build()
    )
    seconds = time.perf_counter() - start
    folder.mkdir(parents=True, exist_ok=True)
    searcher.serialize(str(folder))
    built(folder, seconds)


def score(ids: np.ndarray, scores: np.ndarray, document_of_token: np.ndarray) -> list[int]:
    """f_XTR' with a dictionary of documents; a row ends when its leaves have no more tokens."""
    missing: list[float] = []
    documents: dict[int, dict[int, float]] = {}
    for row, (row_ids, row_scores) in enumerate(zip(ids, scores, strict=True)):
        found = int(np.isfinite(row_scores).sum())
        missing.append(float(row_scores[found - 1]))
        for token, value in zip(row_ids[:found], row_scores[:found], strict=True):
            own = documents.setdefault(int(document_of_token[token]), {})
            if row not in own:
                own[row] = float(value)
    totals = {
        document: sum(own.get(row, value) for row, value in enumerate(missing))
        for document, own in documents.items()
    }
    return sorted(totals, key=lambda document: -totals[document])[:10]


def run(tokens: TokenSet, folder: Path, threads: int) -> None:
    from scann.scann_ops.py import scann_ops_pybind

    before = resident_bytes()
    searcher = scann_ops_pybind.load_searcher(str(folder))
    details = json.loads((folder / "built.json").read_text())
    details["memory_bytes"] = resident_bytes() - before
    for leaves in LEAVES:

        def search(query: np.ndarray, leaves: int = leaves) -> list[int]:
            ids, scores = searcher.search_batched(query, final_num_neighbors=K_PRIME, leaves_to_search=leaves)
            return score(ids, scores, tokens.document_of_token)

        measured = measure(search, tokens.queries)
        report("notebook", f"{leaves} leaves", threads, K_PRIME, {**measured, **details})


if __name__ == "__main__":
    engine_main(__doc__, build, run)
