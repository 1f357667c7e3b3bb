"""Mines the hard negatives of question sets again: what an encoder finds, instead of what BM25 finds.

    python benchmarks/mxtr/refreshed_sets.py --sets .bench/mxtr/sets --out .bench/mxtr/refreshed

The passages of each set are built into a model with `--encoder`, in a folder of their own, and the negatives
are drawn from the same ranks as before. Knows the files of `training_sets.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from training_sets import read, write

from xtr_tf.cli.mine import mine

sys.path.append(str(Path(__file__).resolve().parents[1]))
from exported_model import LENGTHS

SETS = ("squad_nqg_test_en", "fairytaleqa_en", "drcd_dev_zh", "cmrc2018_dev_zh", "iapp_th", "amqa_am")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=Path, required=True, help="folder that training_sets.py made")
    parser.add_argument("--encoder", type=Path, default=Path("models/mxtr_tiny"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name in SETS:
        found = arguments.out / "train" / f"{name}.jsonl"
        if not found.exists():
            refresh(arguments.sets / "pairs" / found.name, arguments.encoder, arguments.out / name, found)


def refresh(pairs: Path, encoder: Path, folder: Path, found: Path) -> None:
    """Writes the pairs of a set with hard negatives."""
    corpus, model = folder / "corpus.jsonl", folder / "model"
    passages = dict.fromkeys((row.get("title", ""), row["text"]) for row in read(pairs))
    write(corpus, ({"id": str(n), "title": title, "text": text} for n, (title, text) in enumerate(passages)))
    lengths = [f"--{name.replace('_', '-')}={value}" for name, value in LENGTHS.items()]
    program = Path(sys.executable).parent / "xtr-tf"
    build = [program, "build", corpus, "--model", encoder, "--out", model, "--token-weights", "idf", *lengths]
    subprocess.run(build, check=True)
    found.parent.mkdir(parents=True, exist_ok=True)
    mine(
        str(pairs),
        found,
        corpus=corpus,
        model=model,
        negatives=3,
        ranks="1-20",
        same_title=True,
        quiet=True,
    )


if __name__ == "__main__":
    main()
