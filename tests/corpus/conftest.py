"""Small shards with known content."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from xtr_tf.corpus.document import Document, DocumentRecord
from xtr_tf.corpus.shard_arrays import ShardArrays


@pytest.fixture
def make_shard() -> Callable[..., ShardArrays]:
    def make(name: str, passages: list[list[int]], dim: int = 8, seed: int = 0) -> ShardArrays:
        """Documents with passages of the given token counts: [[3], [2, 4]] is two documents."""
        rng = np.random.default_rng(seed)
        counts = np.array([count for document in passages for count in document], np.int32)
        tokens = int(counts.sum())
        vectors = rng.normal(size=(tokens, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        documents = [
            Document(f"{name}-{index}", f"text of {name} {index} – 東京", f"Title {index}", "en")
            for index in range(len(passages))
        ]
        return ShardArrays(
            documents=[DocumentRecord.of(document) for document in documents],
            vectors=vectors,
            pieces=rng.integers(0, 1000, tokens, np.int32),
            spans=np.sort(rng.integers(0, 50, (tokens, 2), np.int32), axis=1),
            positions=np.concatenate([[], *[np.arange(count) for count in counts]]).astype(np.int32),
            passage_tokens=counts,
            passage_documents=np.repeat(
                np.arange(len(passages), dtype=np.int32), [len(document) for document in passages]
            ),
        )

    return make
