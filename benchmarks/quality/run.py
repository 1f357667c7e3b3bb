"""Quality per millisecond: nDCG@10 against the time of a query, for xtr-tf and what one would use instead.

    make bench-quality                                   # models/mxtr_tiny
    make bench-quality ARGS="ENCODER --queries 100"      # another encoder, at most 100 queries of each set

Every system searches scifact and squad_dev on one thread, in a process of its own, from the query's text to
ten document ids: exported models of xtr-tf (`scann` and `core`, k' 100 to 10,000, and ranked again by exact
f_ColBERT), XTR with BM25 in one model, BM25 by bm25s, and one vector per text by all-MiniLM-L6-v2 with FAISS.
Reported are the median time and nDCG@10. all-MiniLM-L6-v2 was trained on SQuAD's and similar questions and on
titles and abstracts of scientific papers. Ends with one line,

    RESULT bench-quality above_bm25=… above_minilm=… ms_ratio_bm25=… ms_ratio_minilm=…

the number of the two sets on which `scann` at k' 1,000 is better than each, and how often its time goes into
theirs (the mean over the sets; below 1 it is faster).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from xtr_tf.collections.dataset import Dataset

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "search"))
from engine_process import processor_name
from environments import environment

SETS, OUT = Path(".bench/study/data"), Path(".bench/quality")
NAMES = {"scifact_en": "scifact", "squad_dev_en": "squad_dev"}
KINDS, K_PRIMES, RESCORED = ("scann", "core"), (100, 300, 1_000, 3_000, 10_000), 100
ALPHA = 0.5  # equal shares; nothing is tuned here
ROUNDS, METRIC = 3, "nDCG@10"
MINILM = "MiniLM, one vector"
REFERENCE = "scann, k' 1,000"

#: From a text to the ids of ten documents, best first.
Search = Callable[[str], Sequence[str]]


class Point(NamedTuple):
    """One system on one set.

    Attributes:
        system: Name of the system, with its settings.
        dataset: Name of the set.
        ndcg: nDCG@10 in percent.
        milliseconds: Median time of a query, the best of several rounds of each.
    """

    system: str
    dataset: str
    ndcg: float
    milliseconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--queries", type=int, default=300, help="at most so many of each set; 0 for all")
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
        points += ask_minilm(folder, arguments.queries)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "points.json").write_text(json.dumps([point._asdict() for point in points], indent=1))
    print(table(points))
    print(f"{processor_name()}, one thread, {arguments.queries or 'all'} queries per set")
    print(result(points))


def read_set(folder: str, most: int) -> Dataset:
    from xtr_tf.collections.loading import load_datasets

    (dataset,) = load_datasets([SETS / "test" / folder])
    return dataset.sample(most, 0)


def measured(system: str, dataset: Dataset, search: Search) -> Point:
    """Asks every query several times, and judges the answers."""
    best = dict.fromkeys((query.id for query in dataset.queries), float("inf"))
    answers: dict[str, Sequence[str]] = {}
    for _ in range(ROUNDS):
        for query in dataset.queries:
            started = time.perf_counter()
            answers[query.id] = search(query.text)
            best[query.id] = min(best[query.id], 1000 * (time.perf_counter() - started))
    return judged(system, dataset, answers, statistics.median(best.values()))


def judged(system: str, dataset: Dataset, answers: Mapping[str, Sequence[str]], milliseconds: float) -> Point:
    from xtr_tf.evaluation.metrics import measure
    from xtr_tf.evaluation.run import Run

    run = Run(system, {query: (ids, range(len(ids), 0, -1)) for query, ids in answers.items()})
    ids = [query.id for query in dataset.queries]
    ndcg = 100 * float(measure(run, dataset.judgements, ids, [METRIC])[METRIC].mean())
    point = Point(system, dataset.name, ndcg, milliseconds)
    print(f"{dataset.name}: {system}: {ndcg:.1f}, {milliseconds:.2f} ms", flush=True)
    return point


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
    yield f"{kind}, k' 1,000, rescored", {"k_prime": [1_000], "rescore": [RESCORED]}
    yield f"{kind}, k' 1,000, with BM25", {"k_prime": [1_000], "alpha": [ALPHA]}


def export(corpus: Path, encoder: Path, kind: str) -> Path:
    """Exports a model of a corpus with BM25 over n-grams in it."""
    from xtr_tf.config.retrieval import IndexConfig, SearchDefaults
    from xtr_tf.index.build import build_index
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.export import export_retriever
    from xtr_tf.retriever.versions import latest_version
    from xtr_tf.vectors.encode import encode_corpus
    from xtr_tf.vectors.store import TokenVectors

    own = OUT / corpus.name
    encode_corpus(corpus, encoder, own / "vectors")
    vectors = TokenVectors.open(own / "vectors")
    config = IndexConfig(kind=kind, lexical="ngrams", reordering=kind == "scann")  # type: ignore[arg-type]
    index = build_index(vectors, own / kind / "index", config)
    defaults = SearchDefaults(token_weights="idf", top_k=10)
    assembly = assemble_retriever(encoder, vectors.directory, index.directory, defaults, "none")
    export_retriever(assembly.retriever, own / kind / "model", assembly.card)
    return latest_version(own / kind / "model")


def ask_minilm(folder: str, most: int) -> list[Point]:
    """One vector per text, in an environment of its own."""
    python = environment(Path(".bench"), "minilm")
    if python is None:
        return []
    dataset = read_set(folder, most)
    texts = {
        "documents": [[document.id, document.full_text] for document in dataset.corpus],
        "queries": [[query.id, query.text] for query in dataset.queries],
        "rounds": ROUNDS,
    }
    script = Path(__file__).parent / "engine_minilm.py"
    finished = subprocess.run(
        [python, script], input=json.dumps(texts), stdout=subprocess.PIPE, text=True, check=True
    )
    answer = json.loads(finished.stdout)
    return [judged(MINILM, dataset, answer["answers"], statistics.median(answer["milliseconds"]))]


def table(points: Sequence[Point]) -> str:
    """A Markdown table with one row per system."""
    sets = list(dict.fromkeys(point.dataset for point in points))
    by_place = {(point.system, point.dataset): point for point in points}
    lines = [f"| | {' | '.join(f'{name} | ms' for name in sets)} |", "|---|" + "---:|---:|" * len(sets)]
    for system in dict.fromkeys(point.system for point in points):
        own = [by_place[system, name] for name in sets]
        lines.append(
            f"| {system} | {' | '.join(f'{point.ndcg:.1f} | {point.milliseconds:.1f}' for point in own)} |"
        )
    return "\n".join(lines)


def result(points: Sequence[Point]) -> str:
    """The line that sums it up."""

    def of(system: str) -> list[Point]:
        return [point for point in points if point.system == system]

    parts = []
    for key, other in (("bm25", of("BM25, n-grams")), ("minilm", of(MINILM))):
        pairs = list(zip(of(REFERENCE), other, strict=False))
        parts.append((f"above_{key}", f"{sum(own.ndcg > theirs.ndcg for own, theirs in pairs)}"))
        ratios = [own.milliseconds / theirs.milliseconds for own, theirs in pairs]
        parts.append((f"ms_ratio_{key}", f"{statistics.fmean(ratios):.2f}" if ratios else "nan"))
    return "RESULT bench-quality " + " ".join(f"{name}={value}" for name, value in sorted(parts))


if __name__ == "__main__":
    main()
