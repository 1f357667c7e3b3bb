"""Writes the texts in which words of many languages are taught, for `word_states.py`.

    python benchmarks/mxtr/word_texts.py --data .bench/study/data --debian .bench/mxtr/debian \
        --out .bench/mxtr/word_texts.jsonl

They are texts of the training sets in their languages, without what is held out for development,
definitions, sentences of the languages that the teacher knows, and what sentences and words of the others
mean in English.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from taught_texts import LONGEST, MEANING, english_texts, parallel_texts
from training_sets import is_held_out, read, write
from word_states import LANGUAGES

#: Pairs to use of each set that is not English; its questions and passages become texts.
SETS = {
    "jaquad_ja": 8_000,
    "iapp_th": 6_000,
    "drcd_dev_zh": 4_000,
    "cmrc2018_dev_zh": 4_000,
    **{f"debian_desc_{name}": 3_000 for name in ("de", "es", "ru", "ja", "zh_CN")},
    **{f"debian_desc_{name}": 800 for name in ("fr", "it", "ko", "pl", "pt_BR")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that unpack.sh made")
    parser.add_argument("--debian", type=Path, required=True, help="folder that debian_texts.py made")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = [
        (text, "en")
        for text in english_texts(arguments.data / "train", arguments.debian / "definitions_en.jsonl")
    ]
    found += foreign_texts(arguments.data / "train")
    for language, pairs in parallel_texts([arguments.data / "parallel", arguments.debian]).items():
        if language in LANGUAGES:
            found += [(pair["text"], language) for pair in pairs.sentences]
        else:
            found += [(pair["en"], MEANING) for pair in pairs.words]
            found += [(pair["en"], "en") for pair in pairs.sentences]
    found.sort(key=lambda row: row[1] == "en")
    languages = dict(found)  # a text of several languages is English, which the others are taught by
    rows = [{"text": text, "language": language} for text, language in languages.items()]
    random.Random(0).shuffle(rows)
    write(arguments.out, rows)
    print(f"{len(rows):,} texts")


def foreign_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the beginnings of questions and passages, with their languages."""
    for name, most in SETS.items():
        rows = [row for row in read(folder / f"{name}.jsonl") if not is_held_out(row["text"])]
        random.Random(0).shuffle(rows)
        language = name.removeprefix("debian_desc_").rpartition("_")[2] if "desc" not in name else name[12:14]
        for row in rows[:most]:
            yield row["query"][:LONGEST], language
            yield f"{row.get('title', '')} {row['text']}".strip()[:LONGEST], language


if __name__ == "__main__":
    main()
