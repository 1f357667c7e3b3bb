"""The token vectors of one document, and many of them put together as a shard's arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xtr_tf.corpus.document import DocumentRecord
from xtr_tf.corpus.shard_arrays import ShardArrays
from xtr_tf.corpus.token_vectors import TokenVectors


@dataclasses.dataclass(frozen=True)
class EncodedDocument:
    """One document's tokens, passage after passage; arrays as in `ShardArrays`.

    `pruned` counts the tokens that were encoded but left out.
    """

    vectors: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray
    positions: np.ndarray
    passage_tokens: np.ndarray
    pruned: int = 0

    @classmethod
    def stored(cls, corpus: TokenVectors, ordinal: int) -> EncodedDocument:
        """A document of a finished directory, its vectors bit for bit."""
        shard, local = corpus.locate(ordinal)
        first_passage, last_passage = np.searchsorted(shard.passage_documents, [local, local + 1])
        first, last = shard.passage_offsets[[first_passage, last_passage]]
        return cls(
            vectors=shard.vectors[first:last],
            pieces=shard.pieces[first:last],
            spans=shard.spans[first:last],
            positions=shard.positions[first:last],
            passage_tokens=shard.passage_tokens[first_passage:last_passage],
        )


def assemble(records: Sequence[DocumentRecord], documents: Sequence[EncodedDocument]) -> ShardArrays:
    """Puts documents together in the order given.

    Args:
        records: What is kept of each document.
        documents: The tokens of each; one at least.
    """
    joined = {
        name: np.concatenate([getattr(document, name) for document in documents])
        for name in ("vectors", "pieces", "spans", "positions", "passage_tokens")
    }
    passages = [len(document.passage_tokens) for document in documents]
    owners = np.repeat(np.arange(len(documents), dtype=np.int32), passages)
    return ShardArrays(records, passage_documents=owners, **joined)
