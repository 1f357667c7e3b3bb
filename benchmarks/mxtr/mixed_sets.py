"""Writes English questions and passages in which words are replaced by their translations.

    python benchmarks/mxtr/mixed_sets.py --data .bench/study/data --debian .bench/mxtr/debian \
        --sets .bench/mxtr/sets --out .bench/mxtr/mixed

No training set has questions in most of the tested languages. So words of English questions become words that
stand for them in parallel sentences or in a dictionary, in English word order. A third of the examples have a
mixed question, a third a mixed passage, and a third have both, drawn independently. Knows the files
of `training_sets.py` and `debian_texts.py`.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor
from training_sets import TESTED, is_held_out, read, write
from translations import translations

SETS = ("squad_nqg_test_en", "fairytaleqa_en", "medquad_en")
EXAMPLES = 1_800  # per language
REPLACED = 0.7  # share of the words that have a translation
LIKELY, SEEN = 0.15, 2  # a translation needs this probability, and a word as many sentences
UNSPACED = ("ja", "th", "zh")
_WORD = re.compile(r"\w+")

#: Words that stand for an English word, with weights.
Table = Mapping[str, tuple[Sequence[str], Sequence[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--debian", type=Path, required=True, help="folder that debian_texts.py made")
    parser.add_argument("--sets", type=Path, required=True, help="folder that training_sets.py made")
    parser.add_argument("--tokenizer", type=Path, default=Path("models/mxtr_tiny/tokenizer.model"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pieces = SentencePieceProcessor(model_file=str(arguments.tokenizer))
    rows = [row for name in SETS for row in read(arguments.sets / "train" / f"{name}.jsonl")]
    for language in TESTED:
        pairs = [
            row
            for folder, kind in ((arguments.data / "parallel", "*"), (arguments.debian, "manual"))
            for path in sorted(folder.glob(f"{kind}_{language}.jsonl"))
            for row in read(path)
            if not is_held_out(row["en"])
        ]
        table = words_for(pairs, language, pieces)
        table |= dictionary(arguments.debian / f"dictionary_{language}.jsonl", table)
        draws = random.Random(language)
        chosen = draws.sample(rows, EXAMPLES)
        path = arguments.out / f"mixed-{language}.jsonl"
        write(path, (mixed(row, number % 3, table, path.stem, draws) for number, row in enumerate(chosen)))
        print(f"{language}: {len(table):,} words", flush=True)


def words_for(
    pairs: Sequence[Mapping[str, str]], language: str, pieces: SentencePieceProcessor
) -> dict[str, tuple[list[str], list[float]]]:
    """Finds the words that stand for English words in parallel sentences."""
    numbers: dict[str, int] = {"": 0}
    sides = []
    counts: Counter[str] = Counter()
    for pair in pairs:
        english = _WORD.findall(pair["en"].lower())
        counts.update(set(english))
        own = list(split(pair["text"].lower(), language, pieces))
        sides.append(
            tuple(
                np.array([numbers.setdefault(f"{side} {word}", len(numbers)) for word in words], np.int32)
                for side, words in (("en", english), ("own", own))
            )
        )
    names = list(numbers)
    # The roles are swapped: every English word is explained by a word of the other language, or by none.
    found = translations(sides, len(names))
    table: dict[str, tuple[list[str], list[float]]] = defaultdict(lambda: ([], []))
    for english, own, probability in zip(found.foreign, found.english, found.probability, strict=True):
        word = names[english].removeprefix("en ")
        if own and probability >= LIKELY and counts[word] >= SEEN and len(word) > 1:
            table[word][0].append(names[own].removeprefix("own "))
            table[word][1].append(float(probability))
    return dict(table)


def split(text: str, language: str, pieces: SentencePieceProcessor) -> Iterator[str]:
    """Yields the words of a text; without spaces between words, its pieces."""
    if language not in UNSPACED:
        yield from _WORD.findall(text)
    else:
        yield from (own.strip("▁") for own in pieces.encode(text, out_type=str) if _WORD.search(own))


def dictionary(path: Path, known: Table) -> dict[str, tuple[list[str], list[float]]]:
    """Reads the most likely word for every English word that is not known."""
    table: dict[str, tuple[list[str], list[float]]] = {}
    for row in read(path) if path.exists() else []:
        for english in row["en"].lower().split("; "):
            if english not in known and english not in table and _WORD.fullmatch(english):
                table[english] = ([row["text"].lower()], [1.0])
    return table


def mixed(
    row: Mapping[str, Any], kind: int, table: Table, language: str, draws: random.Random
) -> dict[str, Any]:
    """Replaces words of the question (kind 0), of its passages (1), or of both (2)."""
    query = replaced(row["query"], table, draws) if kind != 1 else row["query"]
    positives, negatives = (
        [{**own, "text": replaced(own["text"], table, draws) if kind else own["text"]} for own in row[side]]
        for side in ("positives", "negatives")
    )
    return {"query": query, "positives": positives, "negatives": negatives, "language": language}


def replaced(text: str, table: Table, draws: random.Random) -> str:
    """Replaces words by words that stand for them."""

    def other(found: re.Match[str]) -> str:
        known = table.get(found[0].lower())
        if known is None or draws.random() > REPLACED:
            return found[0]
        return draws.choices(*known)[0]

    return _WORD.sub(other, text)


if __name__ == "__main__":
    main()
