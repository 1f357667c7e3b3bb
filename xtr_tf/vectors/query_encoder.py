"""From queries to token vectors with a loaded model.

Knows nothing about documents and files, and does not import TensorFlow, which comes with the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.tokenizer import Tokenizer

_QUERIES_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class EncodedQuery:
    """The tokens of one query.

    Attributes:
        vectors: `[tokens, dim]` float32; no tokens for a query without text.
        pieces: `[tokens]` int32, ids in the vocabulary; None if the encoder does not return them.
        words: The pieces as strings; empty if the encoder does not return them.
        weights: `[tokens]` floats, the weight of each token; equal weights if None.
    """

    vectors: np.ndarray
    pieces: np.ndarray | None = None
    words: tuple[str, ...] = ()
    weights: np.ndarray | None = None

    @property
    def token_weights(self) -> np.ndarray:
        """`[tokens]` floats, all 1 if there are no weights."""
        return np.ones(len(self.vectors)) if self.weights is None else self.weights


class QueryEncoder:
    """Encodes queries, truncated to the tokenizer's `query_length`.

    Args:
        encoder: The encoder.
        tokenizer: Its tokenizer.

    Example:
        >>> encoder = QueryEncoder(*load_encoder("model"))
        >>> [query] = encoder.encode(["How long is the Nile?"])
        >>> query.vectors.shape
        (7, 128)
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._encode_ids = encoder.inference

    def encode(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """Encodes queries.

        Args:
            texts: The queries.

        Returns:
            The tokens of each query, in the same order.
        """
        encoded: dict[int, EncodedQuery] = {}
        length = self._tokenizer.config.query_length
        for batch in batches_by_length(texts, _QUERIES_AT_ONCE):
            ids = self._tokenizer.ragged([texts[position].encode() for position in batch], length)
            vectors, _ = self._encode_ids(ids.to_tensor(self._tokenizer.pad_id))
            words = ids.with_values(self._tokenizer.pieces(ids.values)).to_list()
            for row, (position, pieces) in enumerate(zip(batch, ids.to_list(), strict=True)):
                count = len(pieces) if len(pieces) > 1 else 0
                encoded[position] = EncodedQuery(
                    vectors[row, :count].numpy(),
                    np.array(pieces[:count], np.int32),
                    tuple(word.decode() for word in words[row][:count]),
                )
        return [encoded[position] for position in range(len(texts))]


def batches_by_length(texts: Sequence[str], size: int) -> Iterator[list[int]]:
    """Yields batches of positions in `texts`, with texts of similar length together.

    Args:
        texts: The texts.
        size: Maximum number of texts per batch.

    Yields:
        Positions, shortest texts first.

    Example:
        >>> list(batches_by_length(["ccc", "a", "bb"], 2))
        [[1, 2], [0]]
    """
    order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
