"""Writes the English texts that a teacher reads, and chooses the parallel sentences that are taught by it.

    python benchmarks/mxtr/taught_texts.py --data .bench/study/data --out .bench/mxtr/texts.jsonl

They are questions, passages and descriptions of the training sets without what is held out for development,
and the English side of the parallel sentences.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from training_sets import TESTED, is_held_out, read, write

#: Pairs to use of each English set.
SETS = {"squad_nqg_test_en": 12_000, "fairytaleqa_en": 9_000, "medquad_en": 1_500, "debian_desc_en": 1_500}
LONGEST = 360  # characters
# Sentences of a language, of its Tatoeba and its Debian file: if a test set is in it, and otherwise.
SENTENCES, FEWER_SENTENCES = {"tatoeba": 12_000, "debian": 2_500}, {"tatoeba": 1_500, "debian": 500}
CHARACTERS = (12, 300)  # of the English side


class Sentences(NamedTuple):
    """The parallel sentences of a language: all of them, and those that become targets."""

    all: list[dict[str, str]]
    chosen: list[dict[str, str]]


def parallel_sentences(folder: Path) -> dict[str, Sentences]:
    """Reads the parallel sentences of every language; the same are chosen in every run."""
    found: dict[str, Sentences] = {}
    shortest, longest = CHARACTERS
    for path in sorted(folder.glob("*.jsonl")):
        kind, _, language = path.stem.rpartition("_")
        rows = read(path)
        usable = [row for row in rows if shortest < len(row["en"]) < longest]
        random.Random(0).shuffle(usable)
        own = found.setdefault(language, Sentences([], []))
        own.all.extend(rows)
        own.chosen.extend(usable[: (SENTENCES if language in TESTED else FEWER_SENTENCES)[kind]])
    return found


def english_texts(folder: Path) -> Iterator[str]:
    """Yields the beginnings of the questions and passages of the English training sets."""
    for name, most in SETS.items():
        rows = [row for row in read(folder / f"{name}.jsonl") if not is_held_out(row["text"])]
        random.Random(0).shuffle(rows)
        for row in rows[:most]:
            yield row["query"][:LONGEST]
            yield f"{row.get('title', '')} {row['text']}".strip()[:LONGEST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    chosen = parallel_sentences(arguments.data / "parallel").values()
    sentences = (pair["en"] for pairs in chosen for pair in pairs.chosen)
    texts = list(dict.fromkeys((*english_texts(arguments.data / "train"), *sentences)))
    random.Random(0).shuffle(texts)
    write(arguments.out, ({"text": text, "language": "en"} for text in texts))
    print(f"{len(texts):,} texts")


if __name__ == "__main__":
    main()
