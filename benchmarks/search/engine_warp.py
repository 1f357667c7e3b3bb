"""xtr-warp-rs, in its own environment. It has no k': it is compared with exact f_ColBERT."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from token_set import TOP_K, TokenSet, built, engine_main, measure, report, resident_bytes
from xtr_warp.search import XTRWarp

# Its default first, then wider and wider searches.
SETTINGS: tuple[dict[str, float], ...] = (
    {},
    {"nprobe": 4},
    {"nprobe": 8},
    {"nprobe": 16},
    {"nprobe": 32},
    {"nprobe": 32, "bound": 2_048, "centroid_score_threshold": 0.2, "max_candidates": 65_536},
    {"nprobe": 64, "bound": 4_096, "centroid_score_threshold": 0.0, "max_candidates": 131_072},
    {"nprobe": 128, "bound": 4_096, "centroid_score_threshold": 0.0, "max_candidates": 262_144},
)


def build(tokens: TokenSet, folder: Path) -> None:
    documents = [torch.from_numpy(document) for document in tokens.documents()]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    XTRWarp(str(folder / "index")).create(documents, device="cpu", show_progress=False)
    built(folder, time.perf_counter() - start)


def run(tokens: TokenSet, folder: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    before = resident_bytes()
    index = XTRWarp(str(folder / "index")).load("cpu", mmap=False)
    details = json.loads((folder / "built.json").read_text())
    details["memory_bytes"] = resident_bytes() - before
    for setting in SETTINGS:

        def search(query: np.ndarray, setting: dict[str, float] = setting) -> list[int]:
            found = index.search(
                torch.from_numpy(query)[None], TOP_K, num_threads=threads, show_progress=False, **setting
            )
            return [document for document, _ in found[0]]

        measured = measure(search, tokens.queries)
        name = ", ".join(f"{key} {value}" for key, value in setting.items()) or "default"
        report("xtr-warp-rs", name, threads, None, {**measured, **details})


if __name__ == "__main__":
    engine_main(__doc__, build, run)
