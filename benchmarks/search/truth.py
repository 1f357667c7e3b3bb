"""Exact answers by brute force in NumPy: f_XTR' for several k', and f_ColBERT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from token_set import TOP_K, TokenSet

K_PRIMES = (1_000, 40_000)
_BLOCK = 131_072


def yardstick(k_prime: int | None) -> int | None:
    """The k' of the exact answers that a setting is compared with.

    A search with a smaller k' than any of them counts as a faster and rougher point on the curve of the
    smallest.
    """
    if k_prime and k_prime < K_PRIMES[0]:
        return K_PRIMES[0]
    return k_prime if k_prime in K_PRIMES else None


def exact_answers(tokens: TokenSet, cache: Path) -> dict[str, np.ndarray]:
    """Returns the best documents of each query, `[queries, 10]`, by `xtr-{k'}` and `colbert`."""
    if not cache.is_file():
        found: dict[str, list[np.ndarray]] = {f"xtr-{k}": [] for k in K_PRIMES} | {"colbert": []}
        for query in tokens.queries:
            similarities = _similarities(query, tokens)
            for k_prime in K_PRIMES:
                found[f"xtr-{k_prime}"].append(_best(_xtr(similarities, tokens, k_prime)))
            maxima = np.maximum.reduceat(similarities, tokens.offsets[:-1], axis=1)
            found["colbert"].append(_best(maxima.mean(axis=0)))
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(cache, **{name: np.array(rows) for name, rows in found.items()})
    return dict(np.load(cache))


def _similarities(query: np.ndarray, tokens: TokenSet) -> np.ndarray:
    blocks = [
        query @ tokens.vectors[start : start + _BLOCK].astype(np.float32).T
        for start in range(0, len(tokens.vectors), _BLOCK)
    ]
    return np.concatenate(blocks, axis=1)


def _xtr(similarities: np.ndarray, tokens: TokenSet, k_prime: int) -> np.ndarray:
    total = np.zeros(tokens.num_documents)
    retrieved_any = np.zeros(tokens.num_documents, bool)
    for row in similarities:
        cutoff = np.partition(row, -k_prime)[-k_prime] if k_prime < len(row) else row.min()
        hits = np.flatnonzero(row >= cutoff)
        best = np.full(tokens.num_documents, -np.inf, np.float32)
        np.maximum.at(best, tokens.document_of_token[hits], row[hits])
        retrieved_any |= np.isfinite(best)
        total += np.where(np.isfinite(best), best, cutoff)
    return np.where(retrieved_any, total, -np.inf)


def _best(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")[:TOP_K]
