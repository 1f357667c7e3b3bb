"""Adds scores of all-MiniLM-L6-v2's token states to English training sets, for `loss.distillation_weight`.

    python benchmarks/mxtr/teacher_scores.py SETS OUT

A score is f_ColBERT of the states, query tokens weighted by IDF, divided by a temperature: on SQuAD and
SciFact this ranks better than the model's own single vectors. Run inside the environment `minilm` of
`benchmarks/environments.py`, never with xtr_tf's. SETS is a folder of files that `training_sets.py` wrote.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share
from minilm import TokenStates

LONGEST = 128  # tokens
TEMPERATURE = 0.03  # as for the student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    teacher = Teacher()
    for path in sorted(arguments.sets.glob("*_en.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in scored(rows, teacher)]
        (arguments.out / path.name).write_text("".join(lines), "utf-8")
        print(f"{path.stem}: {len(rows):,}", flush=True)


class Teacher:
    """Texts to the ids and the unit vectors of their tokens."""

    def __init__(self) -> None:
        self._states = TokenStates(LONGEST)

    def encode(self, texts: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Returns `[tokens]` ids and `[tokens, 384]` float16 vectors by text."""
        found = {}
        different = list(dict.fromkeys(texts))
        for chosen, tokens, states in self._states.batches(different):
            vectors = torch.nn.functional.normalize(states, dim=-1).half().numpy()
            real = tokens["attention_mask"].numpy() > 0
            for row, number in enumerate(chosen):
                ids = tokens["input_ids"][row].numpy()
                found[different[number]] = ids[real[row]], vectors[row, real[row]]
        return found


def scored(rows: Sequence[dict[str, Any]], teacher: Teacher) -> Iterator[dict[str, Any]]:
    """Yields examples whose documents have scores."""
    passages = teacher.encode([_text(own) for row in rows for own in (*row["positives"], *row["negatives"])])
    queries = teacher.encode([row["query"] for row in rows])
    containing = Counter(int(piece) for ids, _ in passages.values() for piece in np.unique(ids))
    for row in rows:
        ids, vectors = queries[row["query"]]
        known = [containing[int(piece)] for piece in ids]
        weights = np.array([math.log1p((len(passages) - n + 0.5) / (n + 0.5)) for n in known])
        weights /= weights.sum()
        sides = {
            side: [{**own, "score": _score(vectors, weights, passages[_text(own)][1])} for own in row[side]]
            for side in ("positives", "negatives")
        }
        yield {**row, **sides}


def _score(query: np.ndarray, weights: np.ndarray, passage: np.ndarray) -> float:
    best = (query.astype(np.float32) @ passage.astype(np.float32).T).max(axis=1)
    return round(float(best @ weights) / TEMPERATURE, 3)


def _text(document: dict[str, Any]) -> str:
    return f"{document.get('title') or ''} {document['text']}".strip()


if __name__ == "__main__":
    main()
