"""Which tokens of an encoded passage are worth a place in the index. Off unless configured."""

from __future__ import annotations

import unicodedata

import numpy as np
import tensorflow as tf

from xtr_tf.corpus.encoding_config import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.tokenizer import Tokenizer

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
    """Whether a piece is punctuation alone, with or without the mark of a word's beginning."""
    characters = piece.removeprefix(_WORD_START)
    return bool(characters) and all(unicodedata.category(character)[0] == "P" for character in characters)
