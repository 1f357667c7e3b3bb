"""Around the encoder: documents to passages, passages to batches, and which tokens are kept.

Long documents are cut into overlapping windows; every token knows its characters and its position in
the document. Knows nothing of vectors but their norms.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.tokenizer import Tokenizer

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
        positions: `[tokens]` int32, in the document; the closing token's is one after
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
        self._tokenizer = tokenizer

    def split(self, texts: Sequence[str]) -> Iterator[Passage]:
        """The passages of all texts, in order; every text has one at least."""
        for first, group in _groups(texts):
            # Without a graph: building it takes as long as twenty groups gain by it.
            encoded = tf.constant([text.encode() for text in group])
            tokens = self._tokenizer.with_offsets(encoded, tf.int32.max)
            ids, starts, limits = (
                np.split(ragged.values.numpy(), ragged.row_splits.numpy()[1:-1])
                for ragged in (tokens.ids, tokens.character_starts, tokens.character_limits)
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
                ids=np.append(ids[start:limit], self._tokenizer.eos_id).astype(np.int32),
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


_SHORTEST = 32


def bucket_lengths(longest: int) -> list[int]:
    """The lengths that passages are padded to, ascending: `longest`, its half, and so on to about 32."""
    lengths = [longest]
    while lengths[0] // 2 >= _SHORTEST:
        lengths.insert(0, lengths[0] // 2)
    return lengths


def batches(token_counts: Sequence[int], longest: int, batch_tokens: int) -> Iterator[tuple[int, np.ndarray]]:
    """Puts passages into batches.

    Every batch has the length of a bucket and a power of two of rows, none of them padding: the
    passages left over at the end of a bucket go into smaller powers. So there are few shapes to
    compile for, and which passages share a batch depends on nothing but the arguments.

    Args:
        token_counts: Tokens of each passage, at most `longest`.
        longest: The longest bucket.
        batch_tokens: The most tokens of a batch, padding included; a batch has one row at least.

    Yields:
        The length to pad to, and `[rows]` indices of passages in ascending order.
    """
    lengths = bucket_lengths(longest)
    owners = np.searchsorted(lengths, token_counts)
    for bucket, length in enumerate(lengths):
        waiting = np.flatnonzero(owners == bucket)
        most = 1 << (max(batch_tokens // length, 1).bit_length() - 1)
        while len(waiting):
            rows = min(most, 1 << (len(waiting).bit_length() - 1))
            yield length, waiting[:rows]
            waiting = waiting[rows:]


_WORD_START = "▁"


class Pruning:
    """Decides which tokens stay.

    Args:
        config: What to leave out.
        tokenizer: Whose pieces are meant.

    Attributes:
        needs_norms: Whether `keep` must be given norms.

    Raises:
        InputError: If a piece to leave out is not in the vocabulary.
    """

    def __init__(self, config: EncodingConfig, tokenizer: Tokenizer) -> None:
        self.needs_norms = config.min_norm > 0
        self._min_norm = config.min_norm
        self._skipped: np.ndarray | None = None
        if config.skip_pieces or config.skip_punctuation:
            ids = tf.range(tokenizer.vocabulary_size)
            pieces = [piece.decode() for piece in tokenizer.pieces(ids).numpy()]
            unknown = sorted(set(config.skip_pieces).difference(pieces))
            if unknown:
                raise InputError(
                    "Every piece to skip must be in the model's vocabulary, written as there (`▁the`). "
                    f"Received: {unknown}."
                )
            chosen = set(config.skip_pieces)
            self._skipped = np.array(
                [piece in chosen or (config.skip_punctuation and is_punctuation(piece)) for piece in pieces]
            )
            self._skipped[tokenizer.eos_id] = False

    def keep(self, ids: np.ndarray, norms: np.ndarray | None) -> np.ndarray:
        """Which tokens of a passage stay.

        Args:
            ids: `[tokens]` int32.
            norms: `[tokens]` lengths of the projections before they were normalised.

        Returns:
            `[tokens]` bool.
        """
        kept = np.ones(len(ids), bool)
        if self._skipped is not None:
            kept &= ~self._skipped[ids]
        if norms is not None:
            kept &= norms >= self._min_norm
        return kept


def is_punctuation(piece: str) -> bool:
    """Whether a piece is nothing but punctuation, with or without the mark of a word's beginning."""
    characters = piece.removeprefix(_WORD_START)
    return bool(characters) and all(unicodedata.category(character)[0] == "P" for character in characters)
