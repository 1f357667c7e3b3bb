"""Gives every training pair hard negatives: passages of the same file that BM25 ranks high for its query.

    .venv/bin/python benchmarks/study/mine_negatives.py .bench/study/data/train/*_en.jsonl \
        --out .bench/study/data/mined

The paper trains on negatives that a stronger retriever chose; here BM25 does. The positive's own text is
never taken, nor are the other passages with its title, which may well answer the query, too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.evaluation.baselines import BM25

DEPTH = 20  # best ranks that negatives are taken from
NEGATIVES = 4  # of them at most for each pair; training draws anew from these at every visit
BLOCK = 2_000  # queries searched at once


def main() -> None:
    """Writes a file with negatives beside every file given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.files:
        target = arguments.out / path.name
        if target.exists():
            continue
        pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        unfinished = target.with_suffix(".partial")
        with unfinished.open("w", encoding="utf-8") as file:
            for pair in _with_negatives(pairs):
                file.write(json.dumps(pair, ensure_ascii=False) + "\n")
        unfinished.rename(target)
        print(f"{target}: {len(pairs):,} pairs", flush=True)


def _with_negatives(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    passages = {(pair["title"], pair["text"]): None for pair in pairs}
    documents = [Document(id=str(number), title=t, text=x) for number, (t, x) in enumerate(passages)]
    by_id = {document.id: document for document in documents}
    index = BM25(documents)
    mined = []
    for start in range(0, len(pairs), BLOCK):
        block = pairs[start : start + BLOCK]
        run = index.search([Query(str(number), pair["query"]) for number, pair in enumerate(block)], DEPTH)
        for number, pair in enumerate(block):
            found = [by_id[key] for key in run.documents(str(number))]
            negatives = [document for document in found if not _may_answer(document, pair)][:NEGATIVES]
            mined.append(pair | {"negatives": [{"title": d.title, "text": d.text} for d in negatives]})
    return mined


def _may_answer(document: Document, pair: dict[str, Any]) -> bool:
    return document.text == pair["text"] or (document.title == pair["title"] != "")


if __name__ == "__main__":
    main()
