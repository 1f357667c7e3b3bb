"""Measures how common pieces are in the training texts of an encoder, for weights of query tokens.

Knows nothing about weights. See `xtr_tf.model.folder.BACKGROUND_FILE`.
"""

from __future__ import annotations

import numpy as np

from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.batches import BatchSource, batch_dataset

# Enough to tell common pieces from rare ones. More texts would only tell rare pieces apart.
_MOST_TEXTS = 20_000
_TEXTS_AT_ONCE = 256


def piece_shares(data: BatchSource, examples: int, tokenizer: Tokenizer) -> np.ndarray:
    """Returns the share of positive passages that contain each piece.

    Args:
        data: Training set.
        examples: Number of its examples.
        tokenizer: Tokenizer that turns texts into pieces.

    Returns:
        `[vocabulary]` float32, from 0 to 1.
    """
    steps = range(-(-min(examples, _MOST_TEXTS) // _TEXTS_AT_ONCE))
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    texts = 0
    for batch in batch_dataset(data, tokenizer, _TEXTS_AT_ONCE, steps, static_shapes=False):
        ids = batch.document_ids.numpy()[:_TEXTS_AT_ONCE]
        counts += pieces_in(ids, tokenizer.vocabulary_size, tokenizer.pad_id)
        texts += len(ids)
    return (counts / max(texts, 1)).astype(np.float32)


def pieces_in(ids: np.ndarray, vocabulary_size: int, pad_id: int) -> np.ndarray:
    """Counts the rows that contain each piece.

    Args:
        ids: `[texts, length]` integers, padded with `pad_id`.
        vocabulary_size: Number of pieces in the vocabulary.
        pad_id: Id of padding, which is not counted.

    Returns:
        `[vocabulary]` int64.
    """
    ids = np.sort(ids, axis=1)
    first = np.ones(ids.shape, bool)
    first[:, 1:] = ids[:, 1:] != ids[:, :-1]
    return np.bincount(ids[first & (ids != pad_id)], minlength=vocabulary_size)
