"""Reads, trains and trims SentencePiece vocabularies like T5's (`.model` files).

Knows pieces and texts, and needs no TensorFlow. The tokenizer decides which ids a text gets in the graph,
and the importer trims the embedding together with its vocabulary.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically


def _sentencepiece() -> Any:
    """The package, which searching does not need."""
    try:
        import sentencepiece
    except ImportError as error:
        raise InputError(
            "Training vocabularies and importing or exporting checkpoints need the sentencepiece package; "
            f"install xtr-tf[train]. Received: {error}."
        ) from error
    return sentencepiece


class SentencePieceModel:
    """The content of a `.model` file.

    Args:
        content: The file's bytes.
        origin: Where they are from, for messages.

    Attributes:
        content: The file's bytes.
        proto: The `ModelProto` that they are.
        processor: A `SentencePieceProcessor` of them.

    Raises:
        InputError: It is not a SentencePiece model, or its first piece is not padding, as in T5's.
    """

    def __init__(self, content: bytes, origin: str) -> None:
        sentencepiece = _sentencepiece()
        from sentencepiece import sentencepiece_model_pb2

        self.content = content
        self.proto: Any = sentencepiece_model_pb2.ModelProto()
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            self.proto.ParseFromString(content)
            ids = [self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id()]
        except (RuntimeError, TypeError) as error:
            raise InputError(f"The tokenizer must be a SentencePiece model. Received: {origin!r}.") from error
        if ids[0] != 0 or min(ids) < 0:
            raise InputError(
                "The tokenizer must have padding as its first piece, and pieces for the end of a sequence "
                f"and the unknown, as T5's have. Received: ids {ids} in {origin!r}."
            )
        self.pad_id, self.eos_id, self.unk_id = ids

    @classmethod
    def read(cls, file: Path) -> SentencePieceModel:
        """Opens a file."""
        return cls(file.read_bytes(), str(file))

    def __len__(self) -> int:
        return len(self.proto.pieces)

    def piece(self, index: int) -> str:
        """The piece of an id."""
        return self.proto.pieces[index].piece


# The trainer draws this many lines at random from larger corpora.
_MAX_LINES = 5_000_000
# The trainer silently skips longer lines; no ordinary text has one this long.
_MAX_LINE_BYTES = 1 << 20
# Sums of floats depend on how the work is split, so the split must not depend on the machine.
_THREADS = 16


def train_vocabulary(
    texts: Iterable[str], vocabulary_size: int, path: str | Path, lowercase: bool = True
) -> int:
    """Trains a unigram vocabulary with byte fallback: no text has an unknown token.

    Ids are T5's: pad 0, end of sequence 1, unknown 2, no beginning of sequence. Text is
    normalised as for mT5 (`nmt_nfkc`). The same texts in the same order give the same file.

    Args:
        texts: What to learn from; every line of a text is a sentence.
        vocabulary_size: Number of pieces, including the 256 bytes and three special ones.
        path: The `.model` file to write.
        lowercase: Whether the tokenizer that will use it lower-cases.

    Returns:
        The number of lines learned from.

    Raises:
        InputError: There is no text, or too little or too much of it for the size.
    """
    sentencepiece = _sentencepiece()
    lines = _Lines(texts, lowercase)
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size,
            byte_fallback=True,
            normalization_rule_name="nmt_nfkc",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            input_sentence_size=_MAX_LINES,
            shuffle_input_sentence=True,
            max_sentence_length=_MAX_LINE_BYTES,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise _explained(error, vocabulary_size, lines.count) from error
    write_vocabulary(Path(path), model.getvalue())
    return lines.count


class _Lines:
    """The lines of texts that are not blank, counted as they are read."""

    def __init__(self, texts: Iterable[str], lowercase: bool) -> None:
        self._texts = texts
        self._lowercase = lowercase
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            for line in text.splitlines():
                if line.strip():
                    self.count += 1
                    # JSON can contain half of a surrogate pair, which UTF-8 cannot encode.
                    line = line.encode("utf-8", "replace").decode("utf-8")
                    yield line.lower() if self._lowercase else line


def _explained(error: Exception, vocabulary_size: int, lines: int) -> InputError:
    """Turns the trainer's message, which names a line of its source, into one that says what to do."""
    message = str(error)
    if not lines:
        return InputError("There is no text to train a vocabulary on. Received: 0 lines.")
    if too_high := re.search(r"Vocabulary size too high.*?<= (\d+)", message):
        return InputError(
            f"The texts yield at most {too_high[1]} pieces; ask for no more than that, or give more text. "
            f"Received: {vocabulary_size}."
        )
    if too_low := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"The texts need at least {too_low[1]} pieces, for bytes and frequent characters; ask for more. "
            f"Received: {vocabulary_size}."
        )
    return InputError(
        f"SentencePiece could not train a vocabulary ({message}). "
        f"Received: {lines} lines, {vocabulary_size} pieces."
    )


def write_vocabulary(path: Path, content: bytes) -> None:
    """Writes a `.model` file; if that fails, nothing is left behind.

    Args:
        path: The file. Its folder is created if necessary.
        content: A serialised SentencePiece model.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


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

    Returns:
        The smaller model, and which rows of the embedding it keeps.

    Raises:
        InputError: The model is of another kind, or there is no text.
    """
    _require_unigram(model)
    used = _used_pieces(model, texts, lowercase)
    return _with_rows(model, np.flatnonzero(used | _other_needs(model.proto, used)))


def keep_best_pieces(model: SentencePieceModel, count: int, *, lowercase: bool) -> TrimmedVocabulary:
    """Keeps the `count` pieces with the highest scores, and those that every vocabulary needs.

    Args:
        model: A model of the unigram kind, as T5's and mT5's are.
        count: Ordinary pieces to keep; single characters are kept in addition.
        lowercase: Whether texts are lower-cased before they are segmented, so that pieces with capitals
            could never be used.

    Returns:
        The smaller model, and which rows of the embedding it keeps.

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
        raise InputError(f"Keep between 1 and {usable.sum():,} pieces. Received: {count:,}.")
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
    # Leaves out the samples of the self-test, which would fail without the removed pieces.
    trimmed = type(model.proto)(pieces=[model.proto.pieces[row] for row in rows])
    for name in ("trainer_spec", "normalizer_spec", "denormalizer_spec"):
        if model.proto.HasField(name):
            getattr(trimmed, name).CopyFrom(getattr(model.proto, name))
    trimmed.trainer_spec.vocab_size = len(rows)
    return TrimmedVocabulary(trimmed.SerializeToString(), rows)


def _used_pieces(model: SentencePieceModel, texts: Iterable[str], lowercase: bool) -> np.ndarray:
    used = np.zeros(len(model), bool)
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, _TEXTS_A_BATCH)):
        prepared = [text.lower() for text in batch] if lowercase else batch
        for ids in model.processor.encode(prepared, num_threads=os.cpu_count() or 1):
            used[ids] = True
    if not used.any():
        raise InputError("The corpus to trim a vocabulary to must have texts. Received: 0 texts.")
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


_BEIR_QUERIES = "queries.jsonl"


def corpus_texts(path: str | Path) -> Iterator[str]:
    """Yields documents as they are encoded and, if a BEIR folder has them, its queries.

    Args:
        path: Any corpus that `CorpusReader` takes, including a file of queries.

    Raises:
        InputError: There is no such corpus, or nothing in it.
    """
    path = Path(path)
    sources = [path, path / _BEIR_QUERIES] if (path / _BEIR_QUERIES).is_file() else [path]
    for source in sources:
        for document in CorpusReader(source):
            yield document.full_text
