"""Tries what could make the shipped encoder better: short runs that continue from it, each with one change.

    benchmarks/mxtr/levers.sh                   # all arms, an hour and a half of a core
    benchmarks/mxtr/levers.sh control mixed     # some of them

Every arm trains on the sets of `training_sets.py` and sees about as many examples. Then all are measured on
development sets: passages and sentences of sets that no arm was trained on, passages that were held out, and
translations, among which the English one is to be found.
Runs and figures are kept in `.bench/mxtr/levers`; a stopped command continues. Remove the folder if the
shipped encoder has changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from sentences import SETS as SENTENCES
from sentences import Questions, gain, questions_of, searching
from sentences import bm25 as bm25_scores
from training_sets import TESTED, is_held_out, read

from xtr_tf.collections.document import Document
from xtr_tf.files import write_atomically

OUT, SETS, DATA = Path(".bench/mxtr/levers"), Path(".bench/mxtr/sets"), Path(".bench/study/data")
SHIPPED = Path("models/mxtr_tiny")
STEPS, BATCH, LARGE_BATCH = 200, 32, 256
#: Held out by `training_sets.py`.
HELD_OUT = (
    "fairytaleqa_en",
    "medquad_en",
    "heq_val_he",
    "debian_desc_de",
    "debian_desc_es",
    "debian_desc_ru",
)
QUERIES = 300
#: Sentences of each language that are translated to English, and the least number of English characters.
TRANSLATIONS, TRANSLATED, SHORTEST = "translations", 60, 30

Settings = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arms", nargs="*", default=list(ARMS), metavar="ARM", help=", ".join(ARMS))
    arguments = parser.parse_args()
    encoders = {"shipped": SHIPPED} | {arm: trained(arm) for arm in arguments.arms}
    sets = dict(development_sets())
    rows = {"BM25, n-grams": figures("bm25", sets, None)}
    rows |= {name: figures(name, sets, folder) for name, folder in encoders.items()}
    english = [name for name in sets if "_en" in name]
    foreign = [name for name in sets if name not in (*english, TRANSLATIONS)]
    columns = (english, foreign, [*english, *foreign], [TRANSLATIONS])
    titles = (f"{len(english)} English sets", f"{len(foreign)} others", "mean", TRANSLATIONS)
    print(f"| | {' | '.join(titles)} |\n|---|{'---:|' * len(titles)}")
    for name, row in rows.items():
        means = (statistics.fmean(row[own] for own in names) for names in columns)
        print(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |")


def trained(arm: str) -> Path:
    """Trains an arm unless it is there, and returns its encoder."""
    settings = yaml.safe_load((SETS / "mxtr.yaml").read_text("utf-8"))
    settings["training"] |= {
        "initial_encoder": str(SHIPPED),
        "output": str(OUT / arm),
        "seed": 3,
        "steps": STEPS,
        "warmup_steps": 20,
        "decay_steps": STEPS - 20,
        "learning_rate": 2e-4,
        "dtype": "mixed_bfloat16",
    }
    ARMS[arm](settings)
    path = OUT / f"{arm}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(settings, sort_keys=False).encode())
    if not (OUT / arm / "encoder").is_dir():
        program = Path(sys.executable).parent / "xtr-tf"
        subprocess.run([program, "train", path], check=True)
    return OUT / arm / "encoder"


def control(_: Settings) -> None:
    """Nothing is changed."""


def other_seed(settings: Settings) -> None:
    """Nothing but the order of the examples is changed, which tells what is noise."""
    settings["training"]["seed"] = 4


def teacher_scores(settings: Settings) -> None:
    """English examples have scores by `teacher_scores.py`."""
    settings["loss"]["distillation_weight"] = 1.0
    replace_files(settings, Path(".bench/mxtr/scored"))


def large_batch(settings: Settings) -> None:
    """Batches are eight times as large, by gradient caching; fewer steps, a higher learning rate."""
    steps = STEPS * BATCH // LARGE_BATCH
    settings["training"] |= {
        "batch_size": LARGE_BATCH,
        "gradient_cache_chunk": BATCH,
        "steps": steps,
        "warmup_steps": 3,
        "decay_steps": steps - 3,
        "learning_rate": 4e-4,
    }


def refreshed(settings: Settings) -> None:
    """Negatives of questions are what the shipped encoder finds (`refreshed_sets.py`)."""
    replace_files(settings, Path(".bench/mxtr/refreshed/train"))


def xtr_loss(settings: Settings) -> None:
    """The loss is the paper's, with a k_train of about a thirtieth of a batch's document tokens."""
    settings["loss"] |= {"score": "xtr", "k_train": 256}


def served_loss(settings: Settings) -> None:
    """The loss is over f_XTR', by which search ranks; its scores are close together."""
    settings["loss"] |= {"score": "xtr", "k_train": 256, "imputation": "threshold", "temperature": 0.015}


def mixed(settings: Settings) -> None:
    """There are also examples with words of two languages, by `mixed_sets.py`."""
    paths = sorted(Path(".bench/mxtr/mixed").glob("*.jsonl"))
    settings["data"]["train"] += [{"path": str(path), "language": path.stem} for path in paths]


ARMS: Mapping[str, Callable[[Settings], None]] = {
    "control": control,
    "other_seed": other_seed,
    "teacher_scores": teacher_scores,
    "large_batch": large_batch,
    "refreshed": refreshed,
    "xtr_loss": xtr_loss,
    "served_loss": served_loss,
    "mixed": mixed,
}


def replace_files(settings: Settings, folder: Path) -> None:
    """Uses the files of a folder instead of those of the same name."""
    for source in settings["data"]["train"]:
        other = folder / Path(source["path"]).name
        if other.exists():
            source["path"] = str(other)


def development_sets() -> list[tuple[str, Questions]]:
    """Reads sets of sentences and of passages, by name."""
    found = []
    for name, passages in SENTENCES.items():
        rows = read(DATA / "train" / f"{name}.jsonl")
        found.append((f"{name}, sentences", questions_of(rows, passages, QUERIES)))
        found.append((name, _passages(rows, passages)))
    for name in HELD_OUT:
        folder = SETS / "dev" / name
        documents = [Document(row["_id"], row["title"], row["text"]) for row in read(folder / "corpus.jsonl")]
        texts = [row["text"] for row in read(folder / "queries.jsonl")]
        judged = (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]
        found.append((name, Questions(documents, texts, [[int(line.split("\t")[1])] for line in judged])))
    found.append((TRANSLATIONS, _translations()))
    return found


def _translations() -> Questions:
    """Sentences of the tested languages, whose English translations are to be found among all of them."""
    rows = {
        language: [
            row for row in read(DATA / "parallel" / f"tatoeba_{language}.jsonl") if is_held_out(row["en"])
        ]
        for language in TESTED
    }
    # Several languages share English sentences.
    numbers = {text: n for n, text in enumerate(dict.fromkeys(r["en"] for own in rows.values() for r in own))}
    asked = [
        row for own in rows.values() for row in [row for row in own if len(row["en"]) > SHORTEST][:TRANSLATED]
    ]
    documents = [Document(str(number), text=text) for text, number in numbers.items()]
    return Questions(documents, [row["text"] for row in asked], [[numbers[row["en"]]] for row in asked])


def _passages(rows: list[dict[str, Any]], most: int) -> Questions:
    """One question for each of the first passages, which are not split."""
    first = {row["text"]: row["query"] for row in reversed(rows)}
    chosen = list(dict.fromkeys(row["text"] for row in rows))[:most]
    asked = chosen[:QUERIES]
    documents = [Document(str(number), text=text) for number, text in enumerate(chosen)]
    return Questions(documents, [first[text] for text in asked], [[n] for n in range(len(asked))])


def figures(name: str, sets: Mapping[str, Questions], encoder: Path | None) -> dict[str, float]:
    """nDCG@10 of an encoder, or of BM25, on every set; computed once."""
    path = OUT / f"{name}.json"
    found = dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}
    if missing := [own for own in sets if own not in found]:
        search = searching(encoder) if encoder else bm25
        found |= {own: gain(search(sets[own]), sets[own].answers) for own in missing}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found).encode())
    return {own: found[own] for own in sets}


def bm25(questions: Questions) -> np.ndarray:
    """BM25 over character n-grams; a document without any of a question's is not found."""
    found = bm25_scores(questions)
    return np.where(found > 0, found, -np.inf)


if __name__ == "__main__":
    main()
