"""Writes the token states of all-MiniLM-L6-v2 as a store of a teacher's token vectors.

    python benchmarks/mxtr/teacher_states.py TEXTS.jsonl STORE

Run inside the environment `minilm` of `benchmarks/environments.py`, never with xtr_tf's. The store has the
format that `data.teacher_vectors` takes, in the teacher's own width. Every part of the texts is kept in
STORE/parts until all are there: a stopped run continues.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import zlib
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share
from minilm import TokenStates

LONGEST = 256  # tokens, the model's own limit
TEXTS_PER_PART = 8_192


class Teacher:
    """Texts to the states of their tokens and the characters these stand for."""

    def __init__(self) -> None:
        self._states = TokenStates(LONGEST)

    def encode(self, texts: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns for each text `[tokens, 2]` int32 spans and `[tokens, 384]` int8 directions."""
        found: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * len(texts)
        for chosen, tokens, states in self._states.batches(texts):
            spans = tokens["offset_mapping"].numpy().astype(np.int32)
            for row, number in enumerate(chosen):
                real = spans[row, :, 1] > spans[row, :, 0]  # neither pads nor [CLS] and [SEP]
                found[number] = spans[row, real], _int8(states[row].numpy()[real])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=Path, help='one {"text": …} per line')
    parser.add_argument("store", type=Path)
    arguments = parser.parse_args()
    lines = arguments.texts.read_text("utf-8").splitlines()
    parts = arguments.store / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    teacher, starts = Teacher(), range(0, len(lines), TEXTS_PER_PART)
    began = time.monotonic()
    paths = []
    for start in starts:
        part = lines[start : start + TEXTS_PER_PART]
        # Other texts have other names, so that parts of an earlier run with them are not used.
        path = parts / f"{start}-{zlib.crc32(''.join(part).encode()):08x}.npz"
        paths.append(path)
        if not path.exists():
            texts = [json.loads(line)["text"] for line in part]
            spans, vectors = zip(*teacher.encode(texts), strict=True)
            temporary = path.with_suffix(".tmp.npz")
            np.savez(
                temporary,
                counts=[len(own) for own in spans],
                spans=np.concatenate(spans),
                vectors=np.concatenate(vectors),
            )
            temporary.rename(path)
        done = min(start + TEXTS_PER_PART, len(lines))
        print(
            f"{done:,} of {len(lines):,} texts, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
        )
    loaded = [np.load(path) for path in paths]
    np.save(
        arguments.store / "offsets.npy", np.cumsum([0, *np.concatenate([own["counts"] for own in loaded])])
    )
    np.save(arguments.store / "spans.npy", np.concatenate([own["spans"] for own in loaded]))
    np.save(arguments.store / "vectors.npy", np.concatenate([own["vectors"] for own in loaded]))
    # Last, because it says that the store is complete.
    shutil.copy(arguments.texts, arguments.store / "texts.tmp")
    (arguments.store / "texts.tmp").rename(arguments.store / "texts.jsonl")
    shutil.rmtree(parts)


def _int8(vectors: np.ndarray) -> np.ndarray:
    """Scales every row to the range of int8; only directions matter."""
    return np.rint(127 * vectors / np.abs(vectors).max(axis=1, keepdims=True)).astype(np.int8)


if __name__ == "__main__":
    main()
