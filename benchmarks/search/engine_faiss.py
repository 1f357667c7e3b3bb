"""FAISS IVF with fast-scan product quantisation, and f_XTR' in NumPy."""

from __future__ import annotations

import json
import time
from pathlib import Path

import faiss
import numpy as np
from token_set import TOP_K, TokenSet, built, engine_main, measure, report, resident_bytes

NPROBES = (5, 10, 20, 50, 100, 200)
K_PRIME = 1_000
# The cells that FAISS' guidelines give a million vectors at least, and as many as xtr-tf takes. Vectors are
# coded as they are, as their distance from the cell (`fsr`), and so with the hits scored again by 8 bits a
# dimension.
FACTORIES = (
    "IVF1000,PQ64x4fs",
    "IVF4000,PQ64x4fs",
    "IVF1000,PQ64x4fsr",
    "IVF1000,PQ64x4fsr,Refine(SQ8)",
)


def build(tokens: TokenSet, folder: Path) -> None:
    vectors = tokens.vectors.astype(np.float32)
    for factory in FACTORIES:
        own = folder / factory
        if (own / "built.json").is_file():
            continue
        start = time.perf_counter()
        index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
        index.add(vectors)
        seconds = time.perf_counter() - start
        own.mkdir(parents=True, exist_ok=True)
        faiss.write_index(index, str(own / "index.faiss"))
        built(own, seconds)


def score(
    ids: np.ndarray, scores: np.ndarray, document_of_token: np.ndarray, num_documents: int
) -> np.ndarray:
    """f_XTR' over hits sorted by decreasing score; negative ids fill up a short row."""
    rows = len(ids)
    scores = np.where(ids >= 0, scores, np.inf)
    missing = scores.min(axis=1)
    best = np.full(rows * num_documents, -np.inf, np.float32)
    cells = document_of_token[ids] + (np.arange(rows) * num_documents)[:, np.newaxis]
    kept = ids >= 0
    # If several values go to one cell, NumPy keeps the last, here the highest.
    best[cells[kept][::-1]] = scores[kept][::-1]
    best = best.reshape(rows, num_documents)
    retrieved = best > -np.inf
    totals = np.where(retrieved, best - missing[:, np.newaxis], 0).sum(axis=0)
    totals[~retrieved.any(axis=0)] = -np.inf
    top = np.argpartition(-totals, TOP_K)[:TOP_K]
    return top[np.argsort(-totals[top], kind="stable")]


def run(tokens: TokenSet, folder: Path, threads: int) -> None:
    faiss.omp_set_num_threads(threads)
    for factory in FACTORIES:
        before = resident_bytes()
        index = faiss.read_index(str(folder / factory / "index.faiss"))
        details = json.loads((folder / factory / "built.json").read_text())
        details["memory_bytes"] = resident_bytes() - before
        for nprobe in NPROBES:
            faiss.ParameterSpace().set_index_parameter(index, "nprobe", nprobe)

            def search(query: np.ndarray, index: faiss.Index = index) -> np.ndarray:
                scores, ids = index.search(query, K_PRIME)
                return score(ids, scores, tokens.document_of_token, tokens.num_documents)

            measured = measure(search, tokens.queries)
            report("FAISS", f"{factory}, nprobe {nprobe}", threads, K_PRIME, {**measured, **details})


if __name__ == "__main__":
    engine_main(__doc__, build, run)
