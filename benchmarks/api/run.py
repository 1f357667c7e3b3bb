"""`make bench-api`: how soon the library answers, compared with fast-plaid over the same vectors.

Every figure comes from a fresh process. Passages are those of `examples/atlas`; for the large index, they are
drawn from its sentences. fast-plaid has no encoder and gets the vectors of ours. PyLate is not measured,
because its models have to be downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "benchmarks")]

from environments import environment  # noqa: E402

from xtr_tf.retriever.model_card import installed_versions  # noqa: E402

WORKER = Path(__file__).with_name("worker.py")
QUESTION = "How deep is Lake Baikal?"
_QUERIES = 50


def passages(count: int) -> list[dict[str, str]]:
    """The passages of the example corpus, followed by passages of three sentences drawn from it."""
    lines = (REPOSITORY / "examples" / "atlas" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    own = [json.loads(line) for line in lines]
    sentences = [part for record in own for part in record["text"].split(". ") if len(part) > 20]
    generator = random.Random(0)
    drawn = (
        {"id": f"drawn-{number}", "text": ". ".join(generator.sample(sentences, 3))}
        for number in range(count)
    )
    own = [{"id": record["_id"], "title": record["title"], "text": record["text"]} for record in own]
    return [*own, *drawn][:count]


def worker(*arguments: object, python: str | Path = sys.executable) -> dict[str, Any]:
    """Runs an engine in a fresh process and returns what it measured."""
    environment_ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(REPOSITORY)}
    command = [str(python), "-W", "ignore", str(WORKER), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def vectors_file(texts: list[dict[str, str]], file: Path) -> None:
    """Encodes passages and the question with the shipped model, for an engine without an encoder."""
    import xtr_tf

    model = xtr_tf.load()
    encoded = model.encode_documents(texts, progress=False)
    np.savez(
        file,
        vectors=np.concatenate(encoded),
        offsets=np.cumsum([0, *(len(vectors) for vectors in encoded)]),
        query=model.encode_queries(QUESTION),
    )


def show(name: str, figures: dict[str, Any]) -> None:
    seconds = "  ".join(
        f"{lap.removesuffix('_s')} {value:.2f} s"
        for lap, value in figures.items()
        if lap.endswith("_s") and not lap.endswith("_cpu_s")
    )
    print(f"{name:24} {seconds}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=20_000, help="passages of the large index; 0 for none")
    parser.add_argument("--plaid", type=int, default=1_000, help="passages for fast-plaid; 0 for none")
    options = parser.parse_args()
    print(json.dumps(installed_versions()), f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "passages.json"
        file.write_text(json.dumps(passages(max(300, options.large)), ensure_ascii=False), encoding="utf-8")
        small = worker("ours", file, 300)
        show("300 passages", small)
        result = {
            "import_s": small["import_s"],
            "index_300_s": small["load_s"] + small["index_s"] + small["first_query_s"],
            "index_300_cpu_s": small["load_cpu_s"] + small["index_cpu_s"] + small["first_query_cpu_s"],
        }
        if options.large:
            large = worker("ours", file, options.large)
            show(f"{options.large:,} passages", large)
            result["index_20000_docs_per_s"] = large["documents"] / large["index_s"]
            result["index_20000_docs_per_cpu_s"] = large["documents"] / large["index_cpu_s"]
        models = Path(folder) / "models"
        import xtr_tf

        xtr_tf.load().index(passages(300), progress=False).save(models, progress=False).close()
        opened = worker("open", models)
        show("opened", opened)
        result["open_ms"] = 1000 * opened["open_s"]
        result["first_query_ms"] = 1000 * opened["first_query_s"]
        result["first_query_cpu_ms"] = 1000 * opened["first_query_cpu_s"]
        result["query_ms"] = 1000 * opened["queries_s"] / _QUERIES
        python = environment(REPOSITORY / ".bench", "plaid") if options.plaid else None
        if python:
            stored = Path(folder) / "vectors.npz"
            vectors_file(passages(options.plaid), stored)
            show(f"fast-plaid, {options.plaid:,}", worker("plaid", stored, python=python))
            show(f"xtr-tf, {options.plaid:,}", worker("ours", file, options.plaid))
    print("RESULT bench-api", " ".join(f"{name}={value:.2f}" for name, value in result.items()))


if __name__ == "__main__":
    main()
