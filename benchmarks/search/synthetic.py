"""Clustered vectors for machines without the measurement data. They are harsher than real ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

DIM = 128
TOKENS_A_DOCUMENT = 60
QUERY_TOKENS = 16


def write_clustered(folder: Path, tokens: int) -> Path:
    """Writes Gaussian clusters on the sphere; a query is noisy tokens of one document."""
    if folder.is_dir():
        return folder
    generator = np.random.default_rng(0)
    centres = _normalised(generator.standard_normal((max(1, tokens // 100), DIM)))
    aside = folder.with_suffix(".partial")
    aside.mkdir(parents=True, exist_ok=True)
    vectors = np.lib.format.open_memmap(aside / "mapped.npy", "w+", np.float16, (tokens, DIM))
    for start in range(0, tokens, 65_536):
        rows = vectors[start : start + 65_536]
        chosen = centres[generator.integers(0, len(centres), len(rows))]
        rows[:] = _normalised(chosen + 0.06 * generator.standard_normal(rows.shape))
    documents = np.arange(tokens, dtype=np.int32) // TOKENS_A_DOCUMENT
    gold = generator.choice(int(documents[-1]), 100, replace=False)
    queries = []
    for document in gold:
        own = vectors[document * TOKENS_A_DOCUMENT :][:QUERY_TOKENS].astype(np.float32)
        queries.append(_normalised(own + 0.04 * generator.standard_normal(own.shape)))
    (aside / "vectors.f16").write_bytes(np.ascontiguousarray(vectors).tobytes())
    (aside / "mapped.npy").unlink()
    np.save(aside / "document_of_token.npy", documents)
    lengths = np.cumsum([0] + [len(query) for query in queries])
    np.savez(aside / "queries.npz", vectors=np.concatenate(queries).astype(np.float32), offsets=lengths)
    about = {"source": "synthetic clusters", "tokens": tokens, "dim": DIM, "gold": [[int(d)] for d in gold]}
    (aside / "about.json").write_text(json.dumps(about))
    return aside.rename(folder)


def _normalised(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
