"""Queries without any text: what is left of them is an end-of-sequence token, which means nothing."""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.retriever.search_request import require


def is_blank(ids: tf.RaggedTensor) -> tf.Tensor:
    """Which rows of `[batch, (tokens)]` ids hold the end-of-sequence token alone, `[batch]` bool."""
    return ids.row_lengths() <= 1


def require_text(ids: tf.RaggedTensor, what: str) -> tf.RaggedTensor:
    """The same ids, which fail when run if a row is blank."""
    blank = is_blank(ids)
    check = require(
        ~tf.reduce_any(blank),
        f"Every {what} must contain text. Received: blank at position",
        tf.where(blank)[:, 0],
    )
    with tf.control_dependencies([check]):
        return tf.identity(ids)
