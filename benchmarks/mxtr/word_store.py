"""Writes a store of target vectors that join what an encoder knows with what words mean in many languages.

    python benchmarks/mxtr/word_store.py --words STORE --parallel FOLDER FOLDER \
        --out .bench/mxtr/words-taught

The target of a token is the encoder's own vector, of unit length, plus the direction of its word, which is
much the same in every language. Languages that the teacher does not know learn from parallel sentences and
dictionaries, as in `taught_store.py`: a token gets the directions of the English words that it stands for.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from lexical_start import pieces_of
from taught_store import Student, Table, TaughtText, Word, in_passages, joined, taught_words, write_store
from taught_texts import MEANING, parallel_texts
from translations import translations

from xtr_tf.training.data.teacher_vectors import TeacherVectors, align, unit

WEIGHT = 1.0
MEAN = "pieces.npy"  # in the store's folder: what word_start.py puts into the embeddings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=Path("models/mxtr_tiny"))
    parser.add_argument("--words", type=Path, required=True, help="what word_states.py wrote")
    parser.add_argument("--parallel", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    student, teacher = Student(arguments.encoder, "mixed_bfloat16"), TeacherVectors(arguments.words)
    pieces = student.tokenizer.vocabulary_size
    number_of = {teacher.text(number): number for number in range(len(teacher))}
    texts = [text for text, number in number_of.items() if teacher.languages[number] != MEANING]
    print(f"{len(texts):,} texts", flush=True)
    known = dict(zip(texts, student.tokens(texts), strict=True))
    taught, mean = [], PieceMeanings(pieces, student.dim)
    for text, own in known.items():
        number = number_of[text]
        meanings = align(teacher.tokens(number), *own.spans.T)
        mean.add(own.ids, meanings)
        taught.append(TaughtText(text, teacher.languages[number], own.spans, joined(own, meanings, WEIGHT)))
    for language, pairs in parallel_texts(arguments.parallel).items():
        if language in teacher.languages:
            continue
        sides = (pieces_of(student.tokenizer, [pair[side] for pair in pairs.all]) for side in ("text", "en"))
        table = Table(translations(list(zip(*sides, strict=True)), pieces), pieces)
        foreign = student.tokens([pair["text"] for pair in pairs.sentences])
        for pair, own in zip(pairs.sentences, foreign, strict=True):
            english = known[pair["en"]]
            meanings = align(teacher.tokens(number_of[pair["en"]]), *english.spans.T)
            meanings = table.shares(own.ids, english.ids) @ meanings
            mean.add(own.ids, meanings)
            taught.append(TaughtText(pair["text"], language, own.spans, joined(own, meanings, WEIGHT)))
        words = [Word(pair["text"], _mean(teacher, number_of[pair["en"]])) for pair in pairs.words]
        taught += taught_words(student, words, language, WEIGHT)
        print(f"{language}: {len(foreign):,} sentences, {len(words):,} words", flush=True)
    write_store(arguments.out, in_passages(taught))
    np.save(arguments.out / MEAN, mean.value())


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
