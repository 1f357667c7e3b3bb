"""Writes the English training pairs of the claims' arms, without any text of the measured test sets.

    python benchmarks/paper_claims/training_pairs.py --data .bench/study/data --out .bench/claims/train

A pair is left out if its passage has 13 words in a row in common with a passage or a question of a measured
set, or if it asks one of their questions. The name of a set stands for its language, so that every batch can
come from one set (`one_language_per_batch`). Knows nothing about models.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.loading import load_datasets
from xtr_tf.config.training import SourceConfig
from xtr_tf.files import atomic_directory
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.sources import open_source

#: The test sets that are measured.
MEASURED = ("squad_dev_en", "scifact_en")
#: Questions of SQuAD, too. Their articles are others, but the source is the same.
LEFT_OUT = ("squad_nqg_test_en",)
#: Two texts that have this many words in a row in common are parts of one text.
SHARED_WORDS = 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    measured = MeasuredTexts(load_datasets(arguments.data / "test" / name for name in MEASURED))
    with atomic_directory(arguments.out) as folder:
        for path in training_files(arguments.data / "train"):
            examples = list(read_examples(path))
            kept = [example for example in examples if example not in measured]
            (folder / path.name).write_text("".join(map(_line, kept)), encoding="utf-8")
            print(f"{path.stem}: {len(kept):,} of {len(examples):,} pairs", flush=True)


class MeasuredTexts:
    """The texts that must not occur in training.

    Args:
        datasets: The measured test sets, with all their queries.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self._questions: set[str] = set()
        self._runs: set[int] = set()
        for dataset in datasets:
            questions = [text_key(query.text) for query in dataset.queries]
            self._questions.update(questions)
            for text in (*questions, *(text_key(document.full_text) for document in dataset.corpus)):
                self._runs.update(_runs(text))

    def __contains__(self, example: TrainingExample) -> bool:
        if text_key(example.query) in self._questions:
            return True
        texts = (example.query, *(document.full_text for document in example.positives))
        return any(not self._runs.isdisjoint(_runs(text_key(text))) for text in texts)


def training_files(folder: Path) -> list[Path]:
    """The English sets to train on."""
    return [path for path in sorted(folder.glob("*_en.jsonl")) if path.stem not in LEFT_OUT]


def read_examples(path: Path) -> Iterator[TrainingExample]:
    """The pairs of a set, in the order of the file."""
    (source,) = open_source(SourceConfig(path=str(path), language=path.stem), BadRecords(0))
    return (source[number] for number in range(len(source)))


def text_key(text: str) -> str:
    """The words of a text. Texts that differ only in case, spaces or punctuation have the same."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _runs(key: str) -> Iterator[int]:
    """Hashes of all runs of `SHARED_WORDS` words."""
    words: Sequence[str] = key.split()
    return (hash(tuple(words[at : at + SHARED_WORDS])) for at in range(len(words) - SHARED_WORDS + 1))


def _line(example: TrainingExample) -> str:
    (document,) = example.positives
    row = {
        "query": example.query,
        "title": document.title,
        "text": document.text,
        "language": example.language,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
