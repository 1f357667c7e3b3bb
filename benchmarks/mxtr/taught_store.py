"""Writes a store of target vectors that join what an encoder knows about words with what a teacher knows.

    python benchmarks/mxtr/taught_store.py --teacher STORE --parallel FOLDER --out .bench/mxtr/taught

The target of a token is the encoder's own vector, of unit length, plus WEIGHT times the teacher's direction,
projected to the encoder's width. So a text is found by its words, as before, and by what it means. The
teacher reads English only. A token of another language gets the teacher's vectors of the English tokens
that it stands for (`translations.py`), weighted by how certain that is: a word that stands for nothing keeps
its own vector. The encoder's training towards such targets is `data.teacher_vectors`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from lexical_start import pieces_of
from taught_texts import parallel_sentences
from training_sets import write
from translations import Translations, translations

from xtr_tf.model.folder import load_encoder
from xtr_tf.training.data.teacher_vectors import TeacherVectors, align, unit

WEIGHT = 1.5
SAMPLE = 200_000  # tokens that decide on the projection
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
    parser.add_argument("--parallel", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    student = Student(arguments.encoder)
    teacher, pieces = Teacher(arguments.teacher, student.dim), student.tokenizer.vocabulary_size
    texts = [teacher.text(number) for number in range(len(teacher))]
    english = student.tokens(texts)
    meanings = [teacher.meaning(number, own) for number, own in enumerate(english)]
    taught = [
        TaughtText(text, "en", own.spans, joined(own, meaning))
        for text, own, meaning in zip(texts, english, meanings, strict=True)
    ]
    number_of = {text: number for number, text in enumerate(texts)}
    for language, pairs in parallel_sentences(arguments.parallel).items():
        sides = (pieces_of(student.tokenizer, [pair[side] for pair in pairs.all]) for side in ("text", "en"))
        table = Table(translations(list(zip(*sides, strict=True)), pieces), pieces)
        foreign = student.tokens([pair["text"] for pair in pairs.chosen])
        for pair, own in zip(pairs.chosen, foreign, strict=True):
            number = number_of[pair["en"]]
            shares = table.shares(own.ids, english[number].ids)
            target = joined(own, shares @ meanings[number])
            taught.append(TaughtText(pair["text"], language, own.spans, target))
        print(f"{language}: {len(pairs.chosen)} sentences", flush=True)
    write_store(arguments.out, taught)


class TaughtText(NamedTuple):
    """A text with the spans of its tokens, `[tokens, 2]`, and their targets, `[tokens, dim]`."""

    text: str
    language: str
    spans: np.ndarray
    targets: np.ndarray


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
        self.text = self._store.text
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
        own = self._store.tokens(number)
        projected = (unit(own.vectors) - self._mean) @ self._projection
        return align(own._replace(vectors=projected), tokens.spans[:, 0], tokens.spans[:, 1])


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
