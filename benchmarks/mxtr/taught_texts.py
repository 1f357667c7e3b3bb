"""Writes the English texts that a teacher reads, and chooses the parallel texts that are taught by it.

    python benchmarks/mxtr/taught_texts.py --data .bench/study/data --debian .bench/mxtr/debian \
        --out .bench/mxtr/texts.jsonl

They are questions, passages and descriptions of the training sets without what is held out for development,
definitions, the English side of the parallel sentences, and the translations of a dictionary's words.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from training_sets import TESTED, is_held_out, read, write

#: Pairs to use of each English set.
SETS = {"squad_nqg_test_en": 12_000, "fairytaleqa_en": 9_000, "medquad_en": 6_000, "debian_desc_en": 1_500}
DEFINITIONS = 50_000
LONGEST = 360  # characters
# How many texts of each kind of file are used, for languages with a test set and for the others.
SENTENCES = {"tatoeba": 14_000, "debian": 2_500, "manual": 3_000, "apertium": 25_000, "dictionary": 24_000}
FEWER_SENTENCES = {"tatoeba": 1_500, "debian": 500, "manual": 500}
MEANING = "meaning"  # marks translations of a word: the teacher reads them, but they are not taught
CHARACTERS = (12, 300)  # of the English side of a sentence


class Parallel(NamedTuple):
    """The parallel texts of a language: all of them, and the sentences and words that become targets."""

    all: list[dict[str, str]]
    sentences: list[dict[str, str]]
    words: list[dict[str, str]]


def parallel_texts(folders: Sequence[Path]) -> dict[str, Parallel]:
    """Reads the parallel texts of every language; the same are chosen in every run.

    Sentences are chosen by their English side, so that languages share it where they can. Dictionaries
    begin with the most likely words.
    """
    found: dict[str, Parallel] = {}
    shortest, longest = CHARACTERS
    for path in sorted(path for folder in folders for path in folder.glob("*_??.jsonl")):
        kind, _, language = path.stem.rpartition("_")
        if kind == "definitions":
            continue
        rows = read(path)
        most = (SENTENCES if language in TESTED else FEWER_SENTENCES)[kind]
        own = found.setdefault(language, Parallel([], [], []))
        if kind == "dictionary":
            own.words.extend(rows[:most])
            own.all.extend(rows[:most])
        else:
            usable = [row for row in rows if shortest < len(row["en"]) < longest]
            own.sentences.extend(sorted(usable, key=lambda row: _digest(row["en"]))[:most])
            own.all.extend(rows)
    return found


def english_texts(folder: Path, definitions: Path) -> Iterator[str]:
    """Yields the beginnings of the questions and passages of the English training sets, and definitions."""
    for name, most in SETS.items():
        rows = [row for row in read(folder / f"{name}.jsonl") if not is_held_out(row["text"])]
        random.Random(0).shuffle(rows)
        for row in rows[:most]:
            yield row["query"][:LONGEST]
            yield f"{row.get('title', '')} {row['text']}".strip()[:LONGEST]
    yield from (row["text"][:LONGEST] for row in read(definitions)[:DEFINITIONS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--debian", type=Path, required=True, help="folder that debian_texts.py made")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    chosen = parallel_texts([arguments.data / "parallel", arguments.debian]).values()
    sentences = [pair["en"] for pairs in chosen for pair in pairs.sentences]
    words = [pair["en"] for pairs in chosen for pair in pairs.words]
    own = english_texts(arguments.data / "train", arguments.debian / "definitions_en.jsonl")
    texts = list(dict.fromkeys((*own, *sentences)))
    random.Random(0).shuffle(texts)
    known = set(texts)
    meanings = [text for text in dict.fromkeys(words) if text not in known]
    rows = [{"text": text, "language": "en"} for text in texts]
    write(arguments.out, rows + [{"text": text, "language": MEANING} for text in meanings])
    print(f"{len(texts):,} texts, {len(meanings):,} meanings of words")


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    main()
