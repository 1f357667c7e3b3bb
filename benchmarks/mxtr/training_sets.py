"""Writes the training sets of mxtr_tiny, with hard negatives, and the YAML that trains on them.

    python benchmarks/mxtr/training_sets.py --data .bench/study/data --out .bench/mxtr/sets
    xtr-tf train .bench/mxtr/sets/mxtr.yaml

Every batch comes from one file (`one_language_per_batch`), so that its in-batch negatives are of the same
language and kind as the answer. A tenth of the passages of each set, chosen by a hash of their text, is held
out for development and written as a folder to search in (`dev/NAME`). Only sets whose licences allow the
weights to be passed on are used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from xtr_tf.cli.mine import mine
from xtr_tf.files import write_atomically

CONFIG = Path(__file__).parent / "mxtr.yaml"
DESCRIPTIONS = 1_200
DESCRIBED = ("de", "en", "es", "fr", "it", "ja", "ko", "pl", "pt_BR", "ru", "uk", "zh_CN")
# Both directions of each language: of those that the test sets are in, and of the others.
TRANSLATIONS, FEWER_TRANSLATIONS = 1_200, 192
TESTED = ("ar", "de", "el", "es", "hi", "ja", "ru", "th", "tr", "vi", "zh")
CHARACTERS = (15, 400)  # of the English side of a translation
DEVELOPMENT_PASSAGES, DEVELOPMENT_QUERIES = 2_000, 300


class QuestionSet(NamedTuple):
    """A set of questions with passages.

    Attributes:
        name: Name of the file, which ends with the language.
        most: Pairs to use at most.
        terms: What BM25 counts to find negatives.
    """

    name: str
    most: int
    terms: str = "words"


QUESTIONS = (
    QuestionSet("squad_nqg_test_en", 20_000),
    QuestionSet("fairytaleqa_en", 20_000),
    QuestionSet("medquad_en", 2_500),
    QuestionSet("jaquad_ja", 14_000, "ngrams"),
    QuestionSet("iapp_th", 20_000, "ngrams"),
    QuestionSet("drcd_dev_zh", 20_000, "ngrams"),
    QuestionSet("cmrc2018_dev_zh", 20_000, "ngrams"),
    QuestionSet("pquad_val_fa", 20_000),
    QuestionSet("heq_val_he", 20_000),
    QuestionSet("amqa_am", 20_000, "ngrams"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    descriptions = [
        QuestionSet(f"debian_desc_{language}", DESCRIPTIONS, _terms(language)) for language in DESCRIBED
    ]
    sets = [
        mined(arguments.data / "train" / f"{own.name}.jsonl", arguments.out, own)
        for own in (*QUESTIONS, *descriptions)
    ]
    sets += translations(arguments.data / "parallel", arguments.out)
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    # The name of a set stands for its language: batches are drawn by it.
    config["data"]["train"] = [{"path": str(path), "language": path.stem} for path in sets]
    path = arguments.out / CONFIG.name
    write_atomically(path, yaml.safe_dump(config, sort_keys=False).encode())
    print(path)


def mined(path: Path, out: Path, own: QuestionSet) -> Path:
    """Writes a part of a set with hard negatives, and its held-out passages as a development set."""
    rows = read(path)
    random.Random(0).shuffle(rows)
    kept = [row for row in rows if not is_held_out(row["text"])][: own.most]
    pairs, found = out / "pairs" / path.name, out / "train" / path.name
    write(pairs, kept)
    found.parent.mkdir(parents=True, exist_ok=True)
    mine(
        str(pairs), found, bm25=own.terms, negatives=3, ranks="1-20", margin=0.0, same_title=True, quiet=True
    )
    write(found, ({**row, "language": path.stem} for row in read(found) if row["negatives"]))
    write_development(out / "dev" / path.stem, rows)
    return found


def is_held_out(text: str) -> bool:
    """Whether a passage is kept for development: one in ten, the same in every run."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % 10 == 0


def write_development(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Writes the questions of the held-out passages, to be found among these and other passages."""
    asked = [row for row in rows if is_held_out(row["text"])]
    others = [row for row in rows if not is_held_out(row["text"])]
    passages = list(dict.fromkeys((row.get("title", ""), row["text"]) for row in (*asked, *others)))
    numbers = {passage: number for number, passage in enumerate(passages[:DEVELOPMENT_PASSAGES])}
    judged = [row for row in asked if (row.get("title", ""), row["text"]) in numbers][:DEVELOPMENT_QUERIES]
    write(
        folder / "corpus.jsonl",
        ({"_id": str(n), "title": title, "text": text} for (title, text), n in numbers.items()),
    )
    write(folder / "queries.jsonl", ({"_id": str(n), "text": row["query"]} for n, row in enumerate(judged)))
    answers = (f"{n}\t{numbers[row.get('title', ''), row['text']]}\t1" for n, row in enumerate(judged))
    qrels = folder / "qrels" / "test.tsv"
    qrels.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(qrels, "\n".join(["query-id\tcorpus-id\tscore", *answers, ""]).encode())


def translations(parallel: Path, out: Path) -> list[Path]:
    """Writes parallel sentences as pairs, from each language to English and back."""
    rows: dict[str, list[dict[str, str]]] = {}
    for path in sorted(parallel.glob("*.jsonl")):
        rows.setdefault(path.stem.rpartition("_")[2], []).extend(read(path))
    written = []
    for language, pairs in rows.items():
        shortest, longest = CHARACTERS
        usable = [pair for pair in pairs if shortest < len(pair["en"]) < longest]
        random.Random(0).shuffle(usable)
        most = min(TRANSLATIONS if language in TESTED else FEWER_TRANSLATIONS, len(usable) // 2)
        for name, query, answer, first in (
            (f"{language}-en", "text", "en", 0),
            (f"en-{language}", "en", "text", most),
        ):
            path = out / "train" / f"{name}.jsonl"
            write(
                path,
                (
                    {"query": pair[query], "positives": [pair[answer]], "language": name}
                    for pair in usable[first : first + most]
                ),
            )
            written.append(path)
    return written


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _terms(language: str) -> str:
    return "ngrams" if language in ("ja", "zh_CN") else "words"


if __name__ == "__main__":
    main()
