"""Writes a store of target vectors that join what an encoder knows about words with what a teacher knows.

    python benchmarks/mxtr/taught_store.py --teacher STORE --parallel FOLDER FOLDER --out .bench/mxtr/taught

The target of a token is the encoder's own vector, of unit length, plus WEIGHT times the teacher's direction,
projected to the encoder's width. So a text is found by its words, as before, and by what it means. The
teacher reads English only. A token of another language gets the teacher's vectors of the English tokens
that it stands for (`translations.py`), weighted by how certain that is: a word that stands for nothing keeps
its own vector. Every token of a dictionary's word gets the mean of all tokens of its translations. The
encoder's training towards such targets is `data.teacher_vectors`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from lexical_start import pieces_of
from taught_texts import MEANING, parallel_texts
from training_sets import write
from translations import Translations, translations

from xtr_tf.model.folder import load_encoder
from xtr_tf.training.data.teacher_vectors import TeacherTokens, TeacherVectors, align, unit

WEIGHT = 1.5
SAMPLE = 200_000  # tokens that decide on the projection
WORDS_PER_TEXT = 8  # of a dictionary, with commas between them
PASSAGE = 120  # tokens
UNCERTAIN = 0.1  # probability that competes with those of the English tokens of a sentence


class Tokens(NamedTuple):
    """The encoder's tokens of a text: `[tokens]` ids, `[tokens, 2]` spans and `[tokens, dim]` vectors."""

    ids: np.ndarray
    spans: np.ndarray
    vectors: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=Path("models/mxtr_tiny"))
    parser.add_argument("--teacher", type=Path, required=True, help="what teacher_states.py wrote")
    parser.add_argument("--parallel", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    student = Student(arguments.encoder)
    teacher, pieces = Teacher(arguments.teacher, student.dim), student.tokenizer.vocabulary_size
    number_of = {teacher.text(number): number for number in range(len(teacher))}
    texts = [text for text, number in number_of.items() if teacher.language(number) != MEANING]
    english = dict(zip(texts, student.tokens(texts), strict=True))
    meanings = {text: teacher.meaning(number_of[text], own) for text, own in english.items()}
    taught = [TaughtText(text, "en", own.spans, joined(own, meanings[text])) for text, own in english.items()]
    for language, pairs in parallel_texts(arguments.parallel).items():
        sides = (pieces_of(student.tokenizer, [pair[side] for pair in pairs.all]) for side in ("text", "en"))
        table = Table(translations(list(zip(*sides, strict=True)), pieces), pieces)
        foreign = student.tokens([pair["text"] for pair in pairs.sentences])
        for pair, own in zip(pairs.sentences, foreign, strict=True):
            shares = table.shares(own.ids, english[pair["en"]].ids)
            target = joined(own, shares @ meanings[pair["en"]])
            taught.append(TaughtText(pair["text"], language, own.spans, target))
        words = [Word(pair["text"], teacher.mean(number_of[pair["en"]])) for pair in pairs.words]
        taught += taught_words(student, words, language)
        print(f"{language}: {len(foreign)} sentences, {len(words)} words", flush=True)
    write_store(arguments.out, in_passages(taught))


class TaughtText(NamedTuple):
    """A text with the spans of its tokens, `[tokens, 2]`, and their targets, `[tokens, dim]`."""

    text: str
    language: str
    spans: np.ndarray
    targets: np.ndarray


class Word(NamedTuple):
    """A word or phrase and the teacher's mean direction of its translations, `[dim]`."""

    text: str
    meaning: np.ndarray


def taught_words(student: Student, words: Sequence[Word], language: str) -> list[TaughtText]:
    """Makes texts of several words each. Every token of a word has the meaning of the whole."""
    chunks = [words[start : start + WORDS_PER_TEXT] for start in range(0, len(words), WORDS_PER_TEXT)]
    texts = [", ".join(word.text for word in chunk) for chunk in chunks]
    taught = []
    for text, chunk, own in zip(texts, chunks, student.tokens(texts), strict=True):
        lengths = np.array([len(word.text) for word in chunk])
        starts = np.cumsum([0, *(lengths[:-1] + 2)])
        last = np.maximum(own.spans[:, 1] - 1, 0)  # a token may begin with the space before it
        place = np.searchsorted(starts, last, "right") - 1
        is_word = (last < (starts + lengths)[place]) & (own.spans[:, 1] > own.spans[:, 0])
        meanings = np.stack([word.meaning for word in chunk])[place] * is_word[:, None]
        taught.append(TaughtText(text, language, own.spans, joined(own, meanings)))
    return taught


def in_passages(texts: Sequence[TaughtText]) -> list[TaughtText]:
    """Joins two thirds of the texts to passages of their language: most are single sentences.

    Args:
        texts: In any order.

    Returns:
        The other texts, and passages of at most `PASSAGE` tokens, unless one text is longer.
    """
    random = np.random.default_rng(1)
    by_language: dict[str, list[TaughtText]] = {}
    for text in texts:
        by_language.setdefault(text.language, []).append(text)
    found: list[TaughtText] = []
    for own in by_language.values():
        alone = len(own) // 3
        order = random.permutation(len(own))
        found += [own[number] for number in order[:alone]]
        passage: list[TaughtText] = []
        for number in order[alone:]:
            if passage and sum(len(part.spans) for part in (*passage, own[number])) > PASSAGE:
                found.append(passage_of(passage))
                passage = []
            passage.append(own[number])
        found.append(passage_of(passage))
    return found


def passage_of(parts: Sequence[TaughtText]) -> TaughtText:
    """Joins texts of a language by spaces; their tokens keep their targets."""
    starts = np.cumsum([0, *(len(part.text) + 1 for part in parts[:-1])])
    real = [part.spans[:, 1] > part.spans[:, 0] for part in parts]
    return TaughtText(
        " ".join(part.text for part in parts),
        parts[0].language,
        np.concatenate(
            [part.spans[own] + start for part, own, start in zip(parts, real, starts, strict=True)]
        ),
        np.concatenate([part.targets[own] for part, own in zip(parts, real, strict=True)]),
    )


def joined(tokens: Tokens, meanings: np.ndarray) -> np.ndarray:
    """Joins the encoder's own vectors with the teacher's, `[tokens, dim]` each, to unit length."""
    return unit(unit(tokens.vectors) + WEIGHT * meanings).astype(np.float16)


class Student:
    """The encoder that will be taught, as it is."""

    def __init__(self, folder: Path) -> None:
        self._encoder, self.tokenizer = load_encoder(folder)
        self.dim = self._encoder.config.projection_dim

    def tokens(self, texts: Sequence[str], at_once: int = 64) -> list[Tokens]:
        """Encodes texts."""
        length = self.tokenizer.config.document_length
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        found: dict[int, Tokens] = {}
        for start in range(0, len(order), at_once):
            chosen = order[start : start + at_once]
            own = self.tokenizer.with_offsets(tf.constant([texts[number] for number in chosen]), length)
            vectors = self._encoder.inference(own.ids.to_tensor())[0].numpy()
            parts = [
                part.to_tensor().numpy() for part in (own.ids, own.character_starts, own.character_limits)
            ]
            for row, (number, count) in enumerate(zip(chosen, own.ids.row_lengths().numpy(), strict=True)):
                ids, starts, limits = (part[row, :count] for part in parts)
                found[number] = Tokens(
                    ids, np.stack([starts, limits], 1), vectors[row, :count].astype(np.float16)
                )
        return [found[number] for number in range(len(texts))]


class Teacher:
    """A teacher's directions in an encoder's width: the first principal components, turned at random.

    Args:
        folder: Its store.
        dim: The encoder's width.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self._store = TeacherVectors(folder)
        self.text, self.language = self._store.text, self._store.languages.__getitem__
        random = np.random.default_rng(0)
        chosen = random.choice(len(self._store), min(SAMPLE // 10, len(self._store)), replace=False)
        sample = np.concatenate([unit(self._store.tokens(int(number)).vectors) for number in chosen])[:SAMPLE]
        self._mean = sample.mean(axis=0)
        centred = sample - self._mean
        _, directions = np.linalg.eigh(centred.T @ centred)  # the largest come last
        turned = np.linalg.qr(random.standard_normal((dim, dim)))[0]
        self._projection = (directions[:, -dim:] @ turned).astype(np.float32)

    def __len__(self) -> int:
        return len(self._store)

    def meaning(self, number: int, tokens: Tokens) -> np.ndarray:
        """Returns the teacher's direction for each of the encoder's tokens of a text, `[tokens, dim]`."""
        own = self._projected(number)
        return align(own, tokens.spans[:, 0], tokens.spans[:, 1])

    def mean(self, number: int) -> np.ndarray:
        """Returns the mean of the teacher's directions for the words of a text, `[dim]`."""
        own, text = self._projected(number), self.text(number)
        is_word = [any(map(str.isalnum, text[start:limit])) for start, limit in own.spans]
        return unit(own.vectors)[is_word].mean(axis=0) if any(is_word) else np.zeros(own.vectors.shape[1])

    def _projected(self, number: int) -> TeacherTokens:
        own = self._store.tokens(number)
        return own._replace(vectors=(unit(own.vectors) - self._mean) @ self._projection)


class Table:
    """The probabilities of translations, to be looked up for the tokens of a sentence."""

    def __init__(self, known: Translations, pieces: int) -> None:
        self._pieces = pieces
        self._keys = known.foreign.astype(np.int64) * pieces + known.english
        self._probability = known.probability

    def shares(self, foreign: np.ndarray, english: np.ndarray) -> np.ndarray:
        """Returns how certainly each foreign token stands for each English one, `[foreign, english]`."""
        keys = foreign.astype(np.int64)[:, None] * self._pieces + english[None, :]
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = np.where(self._keys[places] == keys, self._probability[places], 0.0)
        return (found / (found.sum(axis=1, keepdims=True) + UNCERTAIN)).astype(np.float32)


def write_store(folder: Path, texts: Sequence[TaughtText]) -> None:
    """Writes a store. The end of a sequence has no characters and no target."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "offsets.npy", np.cumsum([0, *(len(own.spans) for own in texts)]))
    np.save(folder / "spans.npy", np.concatenate([own.spans for own in texts]).astype(np.int32))
    np.save(folder / "vectors.npy", np.concatenate([own.targets for own in texts]))
    # Last, because it says that the store is complete.
    write(folder / "texts.jsonl", ({"text": own.text, "language": own.language} for own in texts))


if __name__ == "__main__":
    main()
