"""Trains a vocabulary of small letters in which words of many languages are few pieces.

    python benchmarks/mxtr/vocabulary.py --data .bench/study/data --debian .bench/mxtr/debian \
        --words .bench/mxtr/frequent_words.jsonl --out .bench/mxtr/vocabulary

mT5's pieces are of a hundred languages and, in part, of capitals. In small letters, a word of German, Greek,
Turkish or Arabic is 2.3 to 2.6 of them, and "ül" is in many words that have nothing else in common. The new
pieces come from lists of frequent words, from the training sets and from parallel sentences. Writes
`tokenizer.model` and `background.npy`, the share of texts that have each piece.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from training_sets import TESTED, is_held_out, read

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.vocabulary import train_vocabulary
from xtr_tf.training.background import pieces_in

PIECES = 100_000
DRAWN, FEWER_DRAWN = 500_000, 60_000  # words of a language that has a test set, and of the others
UNSPACED = ("ja", "zh")
WORDS_PER_LINE = 20
#: "İstanbul" becomes "i̇stanbul" in small letters, with a dot of its own.
DOTTED, DOTTED_SHARE = "i\u0307", 0.25
SENTENCES, PASSAGES, OF_BACKGROUND = 4_000, 6_000, 4_000  # of each file
NUMBERS, YEARS = range(2100), range(1400, 2030)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--debian", type=Path, required=True, help="folder that debian_messages.py made")
    parser.add_argument("--words", type=Path, required=True, help="what frequent_words.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    model = arguments.out / "tokenizer.model"
    parallel = [*arguments.data.glob("parallel/*.jsonl"), *arguments.debian.glob("messages_*.jsonl")]
    lines = [line for row in read(arguments.words) for line in lines_of(**row)]
    lines += [*numbers(), *sentences(sorted(parallel)), *questions(arguments.data / "train")]
    print(f"{train_vocabulary(lines, PIECES, model):,} lines", flush=True)
    tokenizer = Tokenizer(TokenizerConfig(str(model)))
    np.save(arguments.out / "background.npy", background(background_texts(arguments.data), tokenizer))


def lines_of(language: str, words: Sequence[str], frequencies: Sequence[float]) -> Iterator[str]:
    """Yields lines of words, drawn as often as they are used, and every word at least once."""
    chosen = random.Random(language)
    most = DRAWN if language in (*TESTED, "en") else FEWER_DRAWN
    drawn = [*chosen.choices(words, frequencies, k=most), *words]
    if language == "tr":
        drawn = [_dotted(word) if chosen.random() < DOTTED_SHARE else word for word in drawn]
    chosen.shuffle(drawn)
    space = "" if language in UNSPACED else " "
    for start in range(0, len(drawn), WORDS_PER_LINE):
        yield space.join(drawn[start : start + WORDS_PER_LINE])


def _dotted(word: str) -> str:
    return DOTTED + word[1:] if word.startswith("i") else word


def numbers() -> Iterator[str]:
    """Yields lines of small numbers and, more often, years."""
    drawn = [*map(str, NUMBERS)] * 4 + [*map(str, YEARS)] * 20
    random.Random(0).shuffle(drawn)
    for start in range(0, len(drawn), WORDS_PER_LINE):
        yield " ".join(drawn[start : start + WORDS_PER_LINE])


def sentences(paths: Sequence[Path]) -> Iterator[str]:
    """Yields sentences of every language from parallel texts."""
    for path in paths:
        yield from (row["text"] for row in read(path)[:SENTENCES])


def questions(folder: Path) -> Iterator[str]:
    """Yields questions and passages of the sets that are used for training."""
    for path in sorted(folder.glob("*.jsonl")):
        if not path.stem.startswith(("acl", "squadshifts", "tquad", "idkmrc", "debian")):
            rows = [row for row in read(path) if not is_held_out(row["text"])][:PASSAGES]
            yield from (row["query"] for row in rows)
            yield from dict.fromkeys(row["text"] for row in rows)


def background_texts(data: Path) -> list[str]:
    """Lists passages of the training sets, and sentences."""
    found: list[str] = []
    for path in sorted(data.glob("train/*.jsonl")):
        passages = dict.fromkeys(row["text"] for row in read(path) if not is_held_out(row["text"]))
        found += list(passages)[:OF_BACKGROUND]
    for path in sorted(data.glob("parallel/*.jsonl")):
        found += [row["text"] for row in read(path)[:OF_BACKGROUND]]
    return found


def background(texts: Sequence[str], tokenizer: Tokenizer, at_once: int = 1024) -> np.ndarray:
    """Returns the share of texts that have each piece, `[vocabulary]` float32."""
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    for start in range(0, len(texts), at_once):
        ids = tokenizer.tokenize_documents(list(texts[start : start + at_once])).numpy()
        counts += pieces_in(ids, tokenizer.vocabulary_size, tokenizer.pad_id)
    return (counts / len(texts)).astype(np.float32)


if __name__ == "__main__":
    main()
