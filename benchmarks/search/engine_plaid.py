"""fast-plaid, in its own environment. It has no k': it is compared with exact f_ColBERT."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from fast_plaid.search import FastPlaid
from token_set import TOP_K, TokenSet, built, engine_main, measure, report, resident_bytes

# (cells per query token, documents scored in full); 8 and 4,096 are its defaults.
SETTINGS = ((8, 4_096), (1, 256), (2, 512), (4, 1_024), (8, 1_024), (16, 4_096), (32, 8_192))


def build(tokens: TokenSet, folder: Path) -> None:
    documents = [torch.from_numpy(document) for document in tokens.documents()]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    FastPlaid(str(folder / "index"), device="cpu").create(documents)
    built(folder, time.perf_counter() - start)


def run(tokens: TokenSet, folder: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    before = resident_bytes()
    index = FastPlaid(str(folder / "index"), device="cpu")
    details = json.loads((folder / "built.json").read_text())
    details["memory_bytes"] = resident_bytes() - before
    for probes, full_scores in SETTINGS:

        def search(query: np.ndarray, probes: int = probes, full_scores: int = full_scores) -> list[int]:
            found = index.search(
                torch.from_numpy(query)[None],
                TOP_K,
                n_full_scores=full_scores,
                n_ivf_probe=probes,
                show_progress=False,
                n_processes=1,
            )
            return [document for document, _ in found[0]]

        measured = measure(search, tokens.queries)
        report("fast-plaid", f"{probes} cells, {full_scores} scored", threads, None, {**measured, **details})


if __name__ == "__main__":
    engine_main(__doc__, build, run)
