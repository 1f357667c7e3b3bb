"""Cuts a SentencePiece vocabulary down to the pieces that a corpus uses, or to its best ones.

mT5 covers 101 languages with 250,100 pieces; their embeddings are most of the small and base models. What is
left segments the texts of the corpus exactly as before: the search for the best segmentation sees a subset of
the candidates it saw, with the same scores, and the winner is among them.

- Every piece that was used stays.
- So do the lowest- and the highest-scored piece, because SentencePiece scores unknown characters below the
  one and user-defined pieces by the other.
- So does the single-character piece of every character in the used ones, so that other words in the same
  letters do not become unknown.
- Control, unknown, byte and user-defined pieces stay, and so does the order, hence ids 0, 1 and 2.

Where there is no corpus of every language to be searched, `keep_best_pieces` keeps the likeliest pieces of
all of them; rarer words then fall into more pieces, and none becomes unknown that was not.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from xtr_tf.checkpoints.sentencepiece_model import SentencePieceModel
from xtr_tf.errors import InputError

_TEXTS_A_BATCH = 4096


class TrimmedVocabulary(NamedTuple):
    """A smaller vocabulary.

    Attributes:
        model: Content of the new SentencePiece `.model` file.
        rows: `[pieces]` int64, the old id of every new one, ascending.
    """

    model: bytes
    rows: np.ndarray


def trim_vocabulary(model: SentencePieceModel, texts: Iterable[str], *, lowercase: bool) -> TrimmedVocabulary:
    """Keeps the pieces that `texts` need.

    Args:
        model: A model of the unigram kind, as T5's and mT5's are.
        texts: The corpus, read once.
        lowercase: Whether texts are lower-cased before they are segmented, as by the tokenizer.

    Raises:
        InputError: The model is of another kind, or there is no text.
    """
    _require_unigram(model)
    used = _used_pieces(model, texts, lowercase)
    return _with_rows(model, np.flatnonzero(used | _other_needs(model.proto, used)))


def keep_best_pieces(model: SentencePieceModel, count: int, *, lowercase: bool) -> TrimmedVocabulary:
    """Keeps the `count` pieces of the highest score, and what every vocabulary needs beside them.

    Args:
        model: A model of the unigram kind, as T5's and mT5's are.
        count: Ordinary pieces to keep; single characters are kept beyond it.
        lowercase: Whether texts are lower-cased before they are segmented, so that pieces with capitals
            could never be used.

    Raises:
        InputError: The model is of another kind, or there are not that many pieces.
    """
    _require_unigram(model)
    pieces = model.proto.pieces
    usable = np.array(
        [
            piece.type == piece.NORMAL and (not lowercase or piece.piece == piece.piece.lower())
            for piece in pieces
        ]
    )
    if not 1 <= count <= usable.sum():
        raise InputError(f"There are {usable.sum():,} pieces to choose from. Received: {count:,}.")
    candidates = np.flatnonzero(usable)
    scores = np.array([pieces[row].score for row in candidates])
    best = np.zeros(len(pieces), bool)
    best[candidates[np.argsort(-scores, kind="stable")[:count]]] = True
    characters = usable & np.array([len(piece.piece) == 1 for piece in pieces])
    return _with_rows(model, np.flatnonzero(best | characters | _other_needs(model.proto, best)))


def _require_unigram(model: SentencePieceModel) -> None:
    trainer = model.proto.trainer_spec
    if trainer.model_type != trainer.UNIGRAM:
        raise InputError(
            "Only unigram SentencePiece models can be trimmed, because the pieces of others are built from "
            f"one another. Received: model type {trainer.model_type}."
        )


def _with_rows(model: SentencePieceModel, rows: np.ndarray) -> TrimmedVocabulary:
    trimmed = type(model.proto)()
    trimmed.CopyFrom(model.proto)
    del trimmed.pieces[:]
    trimmed.pieces.extend(model.proto.pieces[row] for row in rows)
    trimmed.trainer_spec.vocab_size = len(rows)
    trimmed.ClearField("self_test_data")
    return TrimmedVocabulary(trimmed.SerializeToString(), rows)


def _used_pieces(model: SentencePieceModel, texts: Iterable[str], lowercase: bool) -> np.ndarray:
    used = np.zeros(len(model), bool)
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, _TEXTS_A_BATCH)):
        prepared = [text.lower() for text in batch] if lowercase else batch
        for ids in model.processor.encode(prepared, num_threads=os.cpu_count() or 1):
            used[ids] = True
    if not used.any():
        raise InputError("A corpus to keep the pieces of must have texts. Received: none.")
    return used


def _other_needs(proto: Any, used: np.ndarray) -> np.ndarray:
    normal = np.array([piece.type == piece.NORMAL for piece in proto.pieces])
    unused = np.array([piece.type == piece.UNUSED for piece in proto.pieces])
    characters = set().union(*(proto.pieces[row].piece for row in np.flatnonzero(used & normal)))
    keep = ~normal & ~unused
    keep |= np.array([piece.piece in characters for piece in proto.pieces])
    scores = np.array([piece.score for piece in proto.pieces])
    candidates = np.flatnonzero(normal)
    keep[candidates[scores[candidates].argmin()]] = True
    keep[candidates[scores[candidates].argmax()]] = True
    return keep
