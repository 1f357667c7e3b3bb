"""Synthetic token vectors that cluster like contextual ones, and queries near some of their documents.

A token's vector is the normalised sum of its word's direction (words drawn by Zipf's law), its document's
topic and noise. Words have senses in common, as synonyms and inflections do. Of 2,000 k-means leaves, the
second nearest and the tenth are 1.10 and 1.50 times as far from a token as the nearest; for the shipped
encoder on English abstracts it is 1.13 and 1.47 times (medians). Every shard has its own seed, so a smaller
set is a prefix of a larger one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.vectors.shard import ShardArrays
from xtr_tf.vectors.store import TokenVectors

DIM = 128
WORDS = 20_000
SENSES = 1_000
TOKENS_A_DOCUMENT = 64
DOCUMENTS_A_SHARD = 3_125  # 200,000 tokens
QUERIES = 100
QUERY_TOKENS = 16


def write_vectors(directory: Path, num_tokens: int, encoder_fingerprint: str = "synthetic") -> TokenVectors:
    """Writes a directory of token vectors, or opens an existing one."""
    if (directory / "manifest.json").is_file():
        return TokenVectors.open(directory)
    rng = np.random.default_rng(0)
    words = _normal(rng, SENSES)[rng.integers(SENSES, size=WORDS)] + 0.7 * _normal(rng, WORDS)
    shards = _LazyShards(words, num_tokens // (TOKENS_A_DOCUMENT * DOCUMENTS_A_SHARD))
    return TokenVectors.write(directory, shards, encoder_fingerprint)  # type: ignore[arg-type]


def make_queries(corpus: TokenVectors) -> np.ndarray:
    """`[QUERIES, QUERY_TOKENS, DIM]` float32: tokens of one document each, with noise."""
    rng = np.random.default_rng(1)
    documents = rng.choice(corpus.num_documents, QUERIES, replace=False)
    tokens = [
        document * TOKENS_A_DOCUMENT + rng.choice(TOKENS_A_DOCUMENT, QUERY_TOKENS, replace=False)
        for document in documents
    ]
    vectors = corpus.take(np.concatenate(tokens)) + 0.4 * _normal(rng, QUERIES * QUERY_TOKENS)
    return _unit(vectors).reshape(QUERIES, QUERY_TOKENS, DIM)


class _LazyShards:
    """Yields shards one at a time, for `TokenVectors.write`."""

    def __init__(self, words: np.ndarray, count: int) -> None:
        self._words = words
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> ShardArrays:
        if index >= self._count:
            raise IndexError(index)
        rng = np.random.default_rng(100 + index)
        tokens = DOCUMENTS_A_SHARD * TOKENS_A_DOCUMENT
        chance = 1.0 / np.arange(1, WORDS + 1)
        pieces = rng.choice(WORDS, tokens, p=chance / chance.sum()).astype(np.int32)
        topics = np.repeat(_normal(rng, DOCUMENTS_A_SHARD), TOKENS_A_DOCUMENT, axis=0)
        vectors = self._words[pieces] + 0.5 * topics + 0.5 * _normal(rng, tokens)
        first = index * DOCUMENTS_A_SHARD
        return ShardArrays(
            documents=[
                DocumentRecord.of(Document(str(first + number), f"document {first + number}"))
                for number in range(DOCUMENTS_A_SHARD)
            ],
            vectors=_unit(vectors),
            pieces=pieces,
            spans=np.zeros((tokens, 2), np.int32),
            positions=np.tile(np.arange(TOKENS_A_DOCUMENT, dtype=np.int32), DOCUMENTS_A_SHARD),
            passage_tokens=np.full(DOCUMENTS_A_SHARD, TOKENS_A_DOCUMENT, np.int32),
            passage_documents=np.arange(DOCUMENTS_A_SHARD, dtype=np.int32),
        )


def _normal(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Directions of about unit length."""
    return rng.standard_normal((rows, DIM), np.float32) / np.float32(np.sqrt(DIM))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
