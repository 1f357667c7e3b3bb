"""Where each indexed token came from: its piece and its place in its document's text.

Twelve bytes a token, needed by explanations alone; a model may be exported without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError


class TokenOrigins(NamedTuple):
    """Of tokens, in the shape that was asked for; -1 where not known.

    Attributes:
        piece_ids: int32, ids of the vocabulary.
        starts: int32, first character in `"{title} {text}"`.
        limits: int32, the character after the last.
    """

    piece_ids: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor


class TokenTable(tf.Module):
    """Looks up pieces and character spans of document tokens.

    Args:
        pieces: `[tokens]` integers, ids of the vocabulary.
        spans: `[tokens, 2]` integers, first character and the one after the last.
    """

    def __init__(self, pieces: np.ndarray, spans: np.ndarray) -> None:
        super().__init__(name="token_table")
        if pieces.ndim != 1 or spans.shape != (len(pieces), 2):
            raise InputError(
                "Every token needs one piece and one span. "
                f"Received: pieces {list(pieces.shape)}, spans {list(spans.shape)}."
            )
        self.num_tokens = len(pieces)
        self.origins = tf.Variable(
            np.concatenate(
                [np.asarray(pieces, np.int32)[:, np.newaxis], np.asarray(spans, np.int32)], axis=1
            ),
            trainable=False,
            name="token_origins",
        )

    def look_up(self, tokens: tf.Tensor) -> TokenOrigins:
        """Origins of token ordinals of any shape, -1 for no token."""
        found = tf.gather(self.origins, tf.maximum(tokens, 0))
        found = tf.where((tokens >= 0)[..., tf.newaxis], found, -1)
        return TokenOrigins(*tf.unstack(found, axis=-1))
