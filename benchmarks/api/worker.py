"""One engine of the benchmark, in its own process: reads passages, prints the time of each step as JSON.

    worker.py ours PASSAGES.json COUNT      the library: load, index, search
    worker.py open MODELS                   an exported model, without Python TensorFlow
    worker.py plaid VECTORS.npz             fast-plaid over encoded vectors, in its own environment

No engine imports the packages of another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUERIES = 50
QUESTION = "How deep is Lake Baikal?"


class Clock:
    """Wall and processor seconds by name, counted from the last lap."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        """Records the time since the last lap."""
        wall, processor = time.perf_counter(), time.process_time()
        self.laps[f"{name}_s"] = wall - self._wall
        self.laps[f"{name}_cpu_s"] = processor - self._processor
        self._wall, self._processor = time.perf_counter(), time.process_time()


def ours(file: str, count: str) -> dict[str, Any]:
    clock = Clock()
    import xtr_tf

    clock.lap("import")
    import tensorflow as tf  # noqa: F401

    clock.lap("tensorflow")
    passages = json.loads(Path(file).read_text(encoding="utf-8"))[: int(count)]
    clock.lap("read")
    model = xtr_tf.load()
    clock.lap("load")
    index = model.index(passages, progress=False)
    clock.lap("index")
    index.search(QUESTION)
    clock.lap("first_query")
    _ask(index.search, clock)
    return {**clock.laps, "documents": len(index), "index": repr(index)}


def open_(models: str) -> dict[str, Any]:
    clock = Clock()
    import xtr_tf

    clock.lap("import")
    index = xtr_tf.open(models)
    clock.lap("open")
    index.search(QUESTION)
    clock.lap("first_query")
    _ask(index.search, clock)
    return clock.laps


def plaid(file: str) -> dict[str, Any]:
    import tempfile

    clock = Clock()
    import numpy as np
    import torch
    from fast_plaid.search import FastPlaid

    clock.lap("import")
    stored = np.load(file)
    documents = [torch.from_numpy(part) for part in np.split(stored["vectors"], stored["offsets"][1:-1])]
    query = torch.from_numpy(stored["query"])[None]
    clock.lap("read")
    with tempfile.TemporaryDirectory() as folder:
        index = FastPlaid(f"{folder}/index", device="cpu")
        index.create(documents)
        clock.lap("index")
        index.search(query, 10, show_progress=False, n_processes=1)
        clock.lap("first_query")
        _ask(lambda _: index.search(query, 10, show_progress=False, n_processes=1), clock)
    return {**clock.laps, "documents": len(documents)}


def _ask(search: Callable[[str], Any], clock: Clock) -> None:
    for _ in range(QUERIES):
        search(QUESTION)
    clock.lap("queries")


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps({"ours": ours, "open": open_, "plaid": plaid}[name](*arguments)))
