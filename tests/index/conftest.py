"""Clustered token vectors, as directories of token vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.vectors.shard import ShardArrays
from xtr_tf.vectors.store import TokenVectors

DIM = 16
MakeVectors = Callable[..., TokenVectors]


@pytest.fixture
def make_vectors(tmp_path: Path) -> MakeVectors:
    directions = np.random.default_rng(0).normal(size=(40, DIM))

    def make(
        name: str, ids: Sequence[str], seed: int = 1, spread: float = 0.3, shards: int = 3
    ) -> TokenVectors:
        """A document of 5 to 24 tokens for each id, in `shards` shards."""
        rng = np.random.default_rng(seed)
        return TokenVectors.write(
            tmp_path / name,
            [_shard(rng, part.tolist(), directions, spread) for part in np.array_split(ids, shards)],
            "fingerprint",
        )

    return make


def _shard(rng: np.random.Generator, ids: list[str], directions: np.ndarray, spread: float) -> ShardArrays:
    counts = rng.integers(5, 25, len(ids)).astype(np.int32)
    tokens = int(counts.sum())
    vectors = directions[rng.integers(0, len(directions), tokens)] + spread * rng.normal(size=(tokens, DIM))
    return ShardArrays(
        documents=[DocumentRecord.of(Document(name, f"text {rng.integers(1 << 30)}")) for name in ids],
        vectors=(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32),
        pieces=rng.integers(0, 99, tokens, np.int32),
        spans=np.zeros((tokens, 2), np.int32),
        positions=np.zeros(tokens, np.int32),
        passage_tokens=counts,
        passage_documents=np.arange(len(ids), dtype=np.int32),
    )
