"""Documents to passages: tokens with their places, in overlapping windows for long documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from xtr_tf.tokenizer import Tokenizer

# Characters tokenised at once, padding included: what the tokenizer's character maps are sized by.
_MAX_CHARACTERS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Passage:
    """A window of a document, closed with the end-of-sequence token.

    Attributes:
        document: Index of its document among those given.
        ids: `[tokens]` int32.
        spans: `[tokens, 2]` int32 characters of the document's full text; the closing token's
            is empty, at the end of the last one's.
        positions: `[tokens]` int32, places in the document; the closing token's is one after
            the last one's.
    """

    document: int
    ids: np.ndarray
    spans: np.ndarray
    positions: np.ndarray


class PassageSplitter:
    """Tokenises documents and cuts long ones into windows.

    Args:
        tokenizer: The model's tokenizer.
        length: Tokens of a passage, end-of-sequence included.
        overlap: Tokens that neighbouring windows share.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, overlap: int) -> None:
        self._window = length - 1
        self._stride = self._window - overlap
        self._eos_id = tokenizer.eos_id

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def tokenize(texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
            tokens = tokenizer.with_offsets(texts, tf.int32.max)
            return tokens.ids, tokens.character_starts, tokens.character_limits

        self._tokenize = tokenize

    def split(self, texts: Sequence[str]) -> Iterator[Passage]:
        """The passages of all texts, in order; every text has one at least."""
        for first, group in _groups(texts):
            ids, starts, limits = (
                np.split(ragged.values.numpy(), ragged.row_splits.numpy()[1:-1])
                for ragged in self._tokenize(tf.constant([text.encode() for text in group]))
            )
            for index in range(len(group)):
                spans = np.stack([starts[index], limits[index]], axis=1)
                yield from self._windows(first + index, ids[index][:-1], spans[:-1])

    def _windows(self, document: int, ids: np.ndarray, spans: np.ndarray) -> Iterator[Passage]:
        """Windows over a document's tokens, given without the end-of-sequence."""
        for start in range(0, max(len(ids) - self._window, 0) + self._stride, self._stride):
            limit = min(start + self._window, len(ids))
            end = spans[limit - 1, 1] if limit else 0
            yield Passage(
                document,
                ids=np.append(ids[start:limit], self._eos_id).astype(np.int32),
                spans=np.append(spans[start:limit], [[end, end]], axis=0).astype(np.int32),
                positions=np.arange(start, limit + 1, dtype=np.int32),
            )


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Runs of texts that fit `_MAX_CHARACTERS` when padded to their longest, with the first's index."""
    group: list[str] = []
    longest = 0
    for index, text in enumerate(texts):
        if group and (len(group) + 1) * max(longest, len(text)) > _MAX_CHARACTERS:
            yield index - len(group), group
            group, longest = [], 0
        group.append(text)
        longest = max(longest, len(text))
    if group:
        yield len(texts) - len(group), group
