"""A batch of texts, encoded."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class EncodedTexts(NamedTuple):
    """Token vectors of a batch.

    Attributes:
        encodings: `[batch, length, dim]` float32.
        mask: `[batch, length]` bool, which of them are tokens.
    """

    encodings: tf.Tensor
    mask: tf.Tensor
