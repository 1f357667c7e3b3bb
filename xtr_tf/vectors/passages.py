"""The steps around the encoder: documents to passages, passages to batches, and which tokens are kept.

Long documents are split into overlapping windows, and of each shared token one is kept. Every token has its
characters and its position in the document. Knows nothing about vectors except their norms.
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

# Characters tokenised at a time, including padding. The size of the tokenizer's character maps depends on it.
_MAX_CHARACTERS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Passage:
    """A window of a document, followed by the end-of-sequence token.

    Attributes:
        document: Index of its document in the input.
        ids: `[tokens]` int32.
        spans: `[tokens, 2]` int32, characters in the full text of the document. The span of the
            end-of-sequence token is empty, at the end of the last token.
        positions: `[tokens]` int32, positions in the document. That of the end-of-sequence token is one after
            the last token.
        kept: `[tokens]` bool. A token that two windows share is kept in the one where it has more context, so
            each half of an overlap belongs to the window whose edge is further away.
    """

    document: int
    ids: np.ndarray
    spans: np.ndarray
    positions: np.ndarray
    kept: np.ndarray


class PassageSplitter:
    """Tokenises documents and splits long ones into windows.

    Args:
        tokenizer: The tokenizer of the model.
        length: Tokens per passage, including the end-of-sequence token.
        overlap: Tokens that two consecutive windows share.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, overlap: int) -> None:
        self._window = length - 1
        self._overlap = overlap
        self._stride = self._window - overlap
        self._tokenizer = tokenizer

    def split(self, texts: Sequence[str]) -> Iterator[Passage]:
        """Splits texts into passages.

        Args:
            texts: The full texts of documents.

        Yields:
            The passages of all texts, in order. Every text has at least one.
        """
        for first, group in _groups(texts):
            # Without a graph: building one takes as long as it saves in twenty groups.
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
        """Yields windows over the tokens of a document, which are given without the end-of-sequence token."""
        for start in range(0, max(len(ids) - self._window, 0) + self._stride, self._stride):
            limit = min(start + self._window, len(ids))
            end = spans[limit - 1, 1] if limit else 0
            kept = np.ones(limit - start + 1, bool)
            if start:
                kept[: self._overlap // 2] = False
            if limit < len(ids):
                kept[self._stride + self._overlap // 2 : -1] = False
            yield Passage(
                document,
                ids=np.append(ids[start:limit], self._tokenizer.eos_id).astype(np.int32),
                spans=np.append(spans[start:limit], [[end, end]], axis=0).astype(np.int32),
                positions=np.arange(start, limit + 1, dtype=np.int32),
                kept=kept,
            )


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields consecutive texts that fit into `_MAX_CHARACTERS` when padded, with the index of the first."""
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
    """Returns the lengths that passages are padded to: `longest`, its half, and so on down to about 32.

    Args:
        longest: The longest bucket.

    Returns:
        The lengths, ascending.
    """
    lengths = [longest]
    while lengths[0] // 2 >= _SHORTEST:
        lengths.insert(0, lengths[0] // 2)
    return lengths


def batches(token_counts: Sequence[int], longest: int, batch_tokens: int) -> Iterator[tuple[int, np.ndarray]]:
    """Groups passages into batches.

    Every batch has the length of a bucket, and its number of rows is a power of two. No row is padding: the
    passages left over at the end of a bucket go into batches of smaller powers. So there are few shapes to
    compile for, and the passages of a batch depend only on the arguments.

    Args:
        token_counts: Tokens of each passage, at most `longest`.
        longest: The longest bucket.
        batch_tokens: Maximum number of tokens per batch, including padding. A batch has at least one row.

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
    """Decides which tokens are kept.

    Args:
        config: Which tokens to leave out.
        tokenizer: The tokenizer with the vocabulary.

    Attributes:
        needs_norms: Whether `keep` needs norms.

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
        """Returns which tokens of a passage are kept.

        Args:
            ids: `[tokens]` int32.
            norms: `[tokens]`, lengths of the projections before normalisation; None if they are not needed.

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
    """Returns whether a piece is only punctuation, with or without the mark for the beginning of a word.

    Args:
        piece: A piece of the vocabulary.

    Returns:
        True if all of its characters are punctuation and there is at least one.
    """
    characters = piece.removeprefix(_WORD_START)
    return bool(characters) and all(unicodedata.category(character)[0] == "P" for character in characters)
