"""Writes a store of target vectors that join what an encoder knows with the meaning and spelling of words.

    python benchmarks/mxtr/word_store.py --words STORE --lists .bench/mxtr/frequent_words.jsonl \
        --vocabulary .bench/mxtr/vocabulary --parallel FOLDER FOLDER --out .bench/mxtr/words-taught

The target of a token is the encoder's own vector, of unit length, plus the direction of its word, which is
much the same in every language, plus the vector of its word's spelling (`spelling.py`), except in English.
Languages that the teacher does not know learn from parallel sentences and dictionaries, as in
`taught_store.py`: a token gets the directions of the English words that it stands for.

Tokens are those of the new vocabulary. One of them has the mean of the encoder's own tokens that it covers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from lexical_start import pieces_of
from spelling import Spelling
from taught_store import (
    Student,
    Table,
    TaughtText,
    Tokens,
    Word,
    in_passages,
    meanings_of_words,
    words_in_texts,
    write_store,
)
from taught_texts import MEANING, parallel_texts
from training_sets import read
from translations import translations
from word_states import LANGUAGES

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.teacher_vectors import TeacherTokens, TeacherVectors, align, unit

MEANING_WEIGHT, SPELLING_WEIGHT = 1.0, 1.0
LISTED = 40_000  # frequent words of a language that the teacher does not know
MEAN = "pieces.npy"  # in the store's folder: what word_start.py puts into the embeddings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=Path("models/mxtr_tiny"))
    parser.add_argument("--words", type=Path, required=True, help="what word_states.py wrote")
    parser.add_argument("--lists", type=Path, required=True, help="what frequent_words.py wrote")
    parser.add_argument("--vocabulary", type=Path, required=True, help="what vocabulary.py wrote")
    parser.add_argument("--parallel", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    reader = Reader(arguments.encoder, arguments.vocabulary / "tokenizer.model")
    teacher, lists = TeacherVectors(arguments.words), read(arguments.lists)
    targets = Targets(reader, Spelling(lists, reader.dim))
    taught: list[TaughtText] = []
    number_of = {teacher.text(number): number for number in range(len(teacher))}
    texts = [text for text, number in number_of.items() if teacher.languages[number] != MEANING]
    print(f"{len(texts):,} texts", flush=True)
    english: dict[str, Tokens] = {}
    for text, own in zip(texts, reader.tokens(texts), strict=True):
        number = number_of[text]
        meanings = align(teacher.tokens(number), *own.spans.T)
        taught.append(targets.taught(text, teacher.languages[number], own, meanings))
        if teacher.languages[number] == "en":
            english[text] = own._replace(vectors=meanings.astype(np.float16))
    for language, pairs in parallel_texts(arguments.parallel).items():
        if language in teacher.languages:
            continue
        sides = (pieces_of(reader.tokenizer, [pair[side] for pair in pairs.all]) for side in ("text", "en"))
        table = Table(translations(list(zip(*sides, strict=True)), reader.pieces), reader.pieces)
        foreign = list(reader.tokens([pair["text"] for pair in pairs.sentences]))
        for pair, own in zip(pairs.sentences, foreign, strict=True):
            known = english[pair["en"]]
            meanings = table.shares(own.ids, known.ids) @ known.vectors.astype(np.float32)
            taught.append(targets.taught(pair["text"], language, own, meanings))
        words = [Word(pair["text"], _mean(teacher, number_of[pair["en"]])) for pair in pairs.words]
        taught += targets.words(words, language)
        print(f"{language}: {len(foreign):,} sentences, {len(words):,} words", flush=True)
    for row in lists:
        if row["language"] not in LANGUAGES:
            words = [Word(word, np.zeros(reader.dim, np.float32)) for word in row["words"][:LISTED]]
            taught += targets.words(words, row["language"])
    write_store(arguments.out, in_passages(taught))
    np.save(arguments.out / MEAN, targets.mean.value())


class Reader:
    """Reads texts in the pieces of a new vocabulary, with the vectors of an encoder that has another one."""

    def __init__(self, encoder: Path, vocabulary: Path) -> None:
        self._student = Student(encoder, "mixed_bfloat16")
        known = self._student.tokenizer.config
        self._length = known.document_length
        lengths = {"query_length": known.query_length, "document_length": known.document_length}
        self.tokenizer = Tokenizer(TokenizerConfig(str(vocabulary), **lengths))
        self.dim, self.pieces = self._student.dim, self.tokenizer.vocabulary_size

    def tokens(self, texts: Sequence[str], at_once: int = 4096) -> Iterator[Tokens]:
        """Yields the tokens of each text. A token that the encoder's cut text lacks has a vector of zeros."""
        for start in range(0, len(texts), at_once):
            some = texts[start : start + at_once]
            read = self.tokenizer.with_offsets(tf.constant(some), self._length)
            splits = read.ids.row_splits.numpy()[1:-1]
            parts = [
                np.split(part.values.numpy(), splits)
                for part in (read.ids, read.character_starts, read.character_limits)
            ]
            for known, ids, starts, limits in zip(self._student.tokens(some), *parts, strict=True):
                own = align(TeacherTokens(known.spans, known.vectors), starts, limits)
                yield Tokens(ids, np.stack([starts, limits], 1), own.astype(np.float16))
            if start and start % (20 * at_once) == 0:
                print(f"{start:,} of {len(texts):,} texts read", flush=True)


class Targets:
    """Makes targets, and remembers what was added to the encoder's own vectors."""

    def __init__(self, reader: Reader, spelling: Spelling) -> None:
        self._reader, self._spelling = reader, spelling
        self.mean = PieceMeanings(reader.pieces, reader.dim)

    def taught(self, text: str, language: str, tokens: Tokens, meanings: np.ndarray) -> TaughtText:
        """Returns a text with its targets, from `[tokens, dim]` directions."""
        added = MEANING_WEIGHT * meanings
        if language != "en":
            spelled = self._spelling.tokens(text)
            if len(spelled.spans):
                added = added + SPELLING_WEIGHT * align(spelled, *tokens.spans.T)
        self.mean.add(tokens.ids, added)
        target = unit(unit(tokens.vectors) + added).astype(np.float16)
        return TaughtText(text, language, tokens.spans.astype(np.int32), target)

    def words(self, words: Sequence[Word], language: str) -> list[TaughtText]:
        """Makes texts of several words each. Every token of a word has the meaning of the whole."""
        chunks = words_in_texts(words)
        tokens = self._reader.tokens([text for text, _ in chunks])
        return [
            self.taught(text, language, own, meanings_of_words(chunk, own))
            for (text, chunk), own in zip(chunks, tokens, strict=True)
        ]


class PieceMeanings:
    """The mean direction of the words that a piece occurs in.

    Args:
        pieces: Size of the vocabulary.
        dim: Width of a direction.
    """

    def __init__(self, pieces: int, dim: int) -> None:
        self._sums, self._counts = np.zeros((pieces, dim), np.float32), np.zeros((pieces, 1), np.float32)

    def add(self, ids: np.ndarray, meanings: np.ndarray) -> None:
        """Counts the tokens of a text, `[tokens]` ids and `[tokens, dim]` directions."""
        np.add.at(self._sums, ids, meanings)
        np.add.at(self._counts, ids, 1)

    def value(self) -> np.ndarray:
        """Returns `[pieces, dim]`, zero for pieces that did not occur."""
        return self._sums / np.maximum(self._counts, 1)


def _mean(teacher: TeacherVectors, number: int) -> np.ndarray:
    """The mean direction of a text's words, `[dim]`."""
    vectors = unit(teacher.tokens(number).vectors)
    return vectors.mean(axis=0) if len(vectors) else np.zeros(teacher.dim, np.float32)


if __name__ == "__main__":
    main()
