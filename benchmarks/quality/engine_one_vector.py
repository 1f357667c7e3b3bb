"""Searches texts by one vector each: all-MiniLM-L6-v2 or nomic-embed-text-v1.5, inner product by FAISS.

    python engine_one_vector.py minilm FOLDER < asked.json
    python engine_one_vector.py nomic FOLDER --weights nomic-embed-text-v1.5.f16.gguf < asked.json

Run inside the environment of that name, never with xtr_tf's. Reads `documents` and `queries` (pairs of an id
and a text) and `rounds` as JSON. Answers with ten document ids per query and its best time, on one thread.
The vectors of the documents are kept in FOLDER: encoding them takes minutes (MiniLM) to hours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Protocol

import faiss
import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share
from minilm import load_minilm

AT_ONCE = 16


class SentenceEncoder(Protocol):
    """Texts to unit vectors."""

    width: int

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        """Returns `[texts, width]` float32; `kind` is `query` or `document`."""


class MiniLM:
    """all-MiniLM-L6-v2: the mean of the token states, as the model's card says."""

    width = 384
    longest = 256  # the model's own limit

    def __init__(self) -> None:
        self.tokenizer, self.model = load_minilm()

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        """Returns `[texts, 384]` float32."""
        del kind  # the model has no prefixes
        tokens = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.longest, return_tensors="pt"
        )
        with torch.inference_mode():
            states = self.model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][:, :, None]
            means = (states * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(means).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("minilm", "nomic"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", type=Path)
    arguments = parser.parse_args()
    asked = json.load(sys.stdin)
    encoder = load(arguments.model, arguments.weights)
    ids, texts = zip(*asked["documents"], strict=True)
    vectors = document_vectors(encoder, texts, arguments.folder)
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    answers = {}
    best = dict.fromkeys((query for query, _ in asked["queries"]), float("inf"))
    for _ in range(asked["rounds"]):
        for query, text in asked["queries"]:
            started = time.perf_counter()
            _, found = index.search(encoder.encode([text], "query"), 10)
            best[query] = min(best[query], 1000 * (time.perf_counter() - started))
            answers[query] = [ids[number] for number in found[0]]
    json.dump({"answers": answers, "milliseconds": list(best.values())}, sys.stdout)


def load(model: str, weights: Path | None) -> SentenceEncoder:
    if model == "minilm":
        return MiniLM()
    from nomic_torch import Nomic

    assert weights is not None
    return Nomic(weights)


def document_vectors(encoder: SentenceEncoder, texts: tuple[str, ...], folder: Path) -> np.ndarray:
    """Encodes the documents that have no vectors in `folder` yet; a stopped run continues."""
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    vectors = np.zeros((len(texts), encoder.width), np.float32)
    for start in range(0, len(order), AT_ONCE):
        chosen = order[start : start + AT_ONCE]
        batch = [texts[number] for number in chosen]
        path = folder / f"{hashlib.sha256(json.dumps(batch).encode()).hexdigest()[:16]}.npy"
        if not path.exists():
            np.save(path, encoder.encode(batch, "document"))
            print(f"\r{start + len(chosen)} of {len(order)}", end="", file=sys.stderr, flush=True)
        vectors[chosen] = np.load(path)
    return vectors


if __name__ == "__main__":
    main()
