r"""Is XTR with BM25 better than either, and what does it cost?

    make bench-hybrid                                  # models/mxtr_tiny, at most 300 queries of each set
    make bench-hybrid ARGS="ENCODER --queries 0"       # another encoder, all queries
    make bench-hybrid ARGS="--skip-cost"               # only quality, or only the cost: --skip-quality

Quality: every test set, exact search at k' 1,000, query tokens weighted by IDF, BM25 over character n-grams.
`alpha` is chosen on the development sets only; two of them are training files that no encoder of ours was
trained on. Cost: a million tokens of real abstracts in `scann` and `core` indexes. Each exported model is
searched with `alpha` 0 and with that `alpha`, in turn, in its own process, and so is one without BM25. Ends
with one line,

    RESULT bench-hybrid above_both=… of=12 worst_delta=… mean_gain=… english_above=… time_ratio=… \
        bytes_per_token=… idle_ratio=…

where deltas and gains are points of nDCG@10 above the better of XTR and BM25. The time ratio and the bytes
are the worst of both indexes and of one and two threads, over `words`. The idle ratio is the time with
`alpha` 0 divided by that of a model without BM25, the worst of all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share
from exported_model import LENGTHS, export_model

if TYPE_CHECKING:
    from xtr_tf.collections.dataset import Dataset

SETS, OUT = Path(".bench/study/data"), Path(".bench/hybrid")
ENGLISH, JUDGED = ("scifact_en", "squad_dev_en"), ("fairytaleqa_en", "cranfield_en", "cacm_en")
#: Training files that no encoder was trained on, and the number of their passages to search.
HELD_OUT, PASSAGES = ("tquad_tr", "idkmrc_id"), 1_500
DEVELOPMENT = (*JUDGED, *HELD_OUT)
ALPHAS = tuple(round(0.05 * step, 2) for step in range(4, 19))
K_PRIME, METRIC = 1_000, "nDCG@10"
TOKENS, ASKED, ROUNDS = 1_000_000, 50, 5
KINDS, LEXICAL, THREADS = ("scann", "core"), ("words", "ngrams"), (1, 2)


class Figures(NamedTuple):
    """nDCG@10 of one set, in percent.

    Attributes:
        xtr: Of f_XTR'.
        bm25: Of BM25 over n-grams.
        hybrid: Of both, by `alpha`.
    """

    xtr: float
    bm25: float
    hybrid: Mapping[float, float]

    def gain(self, alpha: float) -> float:
        """Points above the better of both."""
        return self.hybrid[alpha] - max(self.xtr, self.bm25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--queries", type=int, default=300, help="maximum number per set; 0 for all")
    parser.add_argument("--data", default="../shared/data", type=Path, help="where unpack.sh is")
    parser.add_argument("--skip-quality", action="store_true")
    parser.add_argument("--skip-cost", action="store_true")
    arguments = parser.parse_args()
    if not (SETS / "test").is_dir():
        subprocess.run([arguments.data / "unpack.sh", SETS], check=True, stdout=subprocess.DEVNULL)
    parts = []
    alpha = 0.7
    if not arguments.skip_quality:
        figures = dict(measure_sets(arguments.encoder, arguments.queries))
        alpha = choose_alpha(figures)
        print(table(figures, alpha))
        parts.append(quality_result(figures, alpha))
    if not arguments.skip_cost:
        parts.append(measure_cost(arguments.encoder, arguments.data, alpha))
    print(f"RESULT bench-hybrid {' '.join(parts)}")


def measure_sets(encoder: Path, most_queries: int) -> Iterator[tuple[str, Figures]]:
    """Measures every set."""
    from xtr_tf.collections.loading import load_datasets
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.evaluation.encoder_model import LoadedEncoder
    from xtr_tf.model.folder import load_encoder, read_background

    loaded = LoadedEncoder(*load_encoder(encoder), EncodingConfig(**LENGTHS))
    background = read_background(encoder, loaded.vocabulary_size)
    folders = [SETS / "test" / name for name in ("xquad_r", "jaquad_ja", *ENGLISH, *JUDGED)]
    for dataset in itertools.chain(load_datasets(folders), map(read_pairs, HELD_OUT)):
        sampled = dataset.sample(most_queries, 0)
        started = time.monotonic()
        figures = measure_set(loaded, background, sampled)
        best = max(figures.hybrid.values())
        print(
            f"{dataset.name}: XTR {figures.xtr:.1f}, BM25 {figures.bm25:.1f}, best hybrid {best:.1f} "
            f"({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        yield dataset.name, figures


def read_pairs(name: str) -> Dataset:
    """The passages of a training file with their questions, as a set."""
    from xtr_tf.collections.dataset import Dataset, Query
    from xtr_tf.collections.document import Document

    lines = (SETS / "train" / f"{name}.jsonl").read_text("utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    titles = {pair["text"]: pair.get("title", "") for pair in pairs}
    names = {text: str(number) for number, text in enumerate(list(titles)[:PASSAGES])}
    asked = {str(number): pair for number, pair in enumerate(pairs) if pair["text"] in names}
    return Dataset(
        name,
        tuple(Query(key, pair["query"], name[-2:]) for key, pair in asked.items()),
        {key: {names[pair["text"]]: 1} for key, pair in asked.items()},
        [Document(own, text, titles[text], name[-2:]) for text, own in names.items()],
        metric=METRIC,
    )


def measure_set(loaded, background, dataset) -> Figures:  # type: ignore[no-untyped-def]
    """Ranks a set's queries by f_XTR', by BM25, and by both with every `alpha`."""
    from xtr_tf.collections.document import DocumentRecord
    from xtr_tf.evaluation.encoder_model import weighted
    from xtr_tf.evaluation.exact import ExactRetriever, empty_ranking, fill_ranking
    from xtr_tf.evaluation.metrics import measure
    from xtr_tf.evaluation.run import Run
    from xtr_tf.index.term_postings import TermPostings
    from xtr_tf.scoring.fusion_reference import fuse

    documents = list(dataset.corpus)
    corpus = loaded.encode_documents(documents, dataset.name)
    queries = weighted(loaded.encode_queries([query.text for query in dataset.queries]), corpus, background)
    postings = TermPostings.of([DocumentRecord.of(document) for document in documents], "ngrams")
    rankings = {alpha: empty_ranking(len(queries), 10) for alpha in (0.0, *ALPHAS, 1.0)}
    for block in ExactRetriever(corpus).blocks(queries):
        cutoffs = block.similarities.cutoffs(K_PRIME)
        xtr, floor = block.xtr_scores(cutoffs), block.means(cutoffs)
        lexical = np.stack([postings.scores(dataset.queries[row].text, "ngrams") for row in block.queries])
        for alpha, ranking in rankings.items():
            fill_ranking(ranking, block.queries, fuse(xtr, lexical, floor, alpha))
    ids = [query.id for query in dataset.queries]
    values = {}
    for alpha, ranking in rankings.items():
        run = Run.from_arrays("", ids, corpus.document_ids, *ranking)
        values[alpha] = 100 * float(measure(run, dataset.judgements, ids, [METRIC])[METRIC].mean())
    return Figures(values[0.0], values[1.0], {alpha: values[alpha] for alpha in ALPHAS})


def choose_alpha(figures: Mapping[str, Figures]) -> float:
    """The `alpha` with the best mean over the development sets."""
    return max(ALPHAS, key=lambda alpha: sum(figures[name].hybrid[alpha] for name in DEVELOPMENT))


def table(figures: Mapping[str, Figures], alpha: float) -> str:
    """A Markdown table of nDCG@10."""
    lines = [f"| | XTR | BM25, n-grams | hybrid, alpha {alpha} |", "|---|---:|---:|---:|"]
    for name, own in figures.items():
        kind = " (development)" if name in DEVELOPMENT else ""
        lines.append(f"| {name}{kind} | {own.xtr:.1f} | {own.bm25:.1f} | {own.hybrid[alpha]:.1f} |")
    return "\n".join(lines)


def quality_result(figures: Mapping[str, Figures], alpha: float) -> str:
    """Returns the first half of the RESULT line."""
    own = [figures[name].gain(alpha) for name in figures if name.startswith("xquad_r") or name == "jaquad_ja"]
    english = sum(figures[name].gain(alpha) > 0 for name in ENGLISH)
    return (
        f"above_both={sum(gain > 0 for gain in own)} of={len(own)} worst_delta={min(own):.2f} "
        f"mean_gain={statistics.fmean(own):.2f} english_above={english}"
    )


def measure_cost(encoder: Path, data: Path, alpha: float) -> str:
    """Builds, exports and searches the indexes; returns the second half of the RESULT line."""
    corpus, asked = write_corpus(data)
    ratios, sizes, idle = [], [], []
    print("| index | lexical | threads | no BM25 | alpha 0 | hybrid | ratio | more bytes per token |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for kind in KINDS:
        for lexical in ("none", *LEXICAL):
            process = get_context("spawn").Process(target=build, args=(corpus, encoder, kind, lexical))
            process.start()
            process.join()
        without = {n: ask_in_process(OUT / f"{kind}_none/model", asked, (), n)[0] for n in THREADS}
        for lexical, threads in itertools.product(LEXICAL, THREADS):
            folder = OUT / f"{kind}_{lexical}"
            size = json.loads((folder / "bytes.json").read_text())
            plain, hybrid = ask_in_process(folder / "model", asked, (0.0, alpha), threads)
            print(
                f"| {kind} | {lexical} | {threads} | {without[threads]:.2f} ms | {plain:.2f} ms "
                f"| {hybrid:.2f} ms | {hybrid / plain:.2f} | {size:.1f} |",
                flush=True,
            )
            idle.append(plain / without[threads])
            if lexical == "words":
                ratios.append(hybrid / plain)
                sizes.append(size)
    return f"time_ratio={max(ratios):.2f} bytes_per_token={max(sizes):.1f} idle_ratio={max(idle):.2f}"


def write_corpus(data: Path) -> tuple[Path, list[str]]:
    """Abstracts of about a million tokens, and titles of some of them as queries."""
    path = OUT / "corpus.jsonl"
    OUT.mkdir(parents=True, exist_ok=True)
    characters, titles = 0, []
    packed = data / "train" / "acl_title_abstract_en.jsonl.xz"
    with lzma.open(packed, "rt", encoding="utf-8") as lines, path.open("w", encoding="utf-8") as file:
        for number, line in enumerate(lines):
            pair = json.loads(line)
            file.write(json.dumps({"_id": str(number), "text": pair["text"]}) + "\n")
            titles.append(pair["query"])
            characters += len(pair["text"])
            if characters >= 4.4 * TOKENS:  # of this vocabulary
                break
    return path, titles[:: len(titles) // ASKED][:ASKED]


def build(corpus: Path, encoder: Path, kind: str, lexical: str) -> None:
    """Exports a model of the corpus, and notes the bytes per token of its lexical part."""
    from xtr_tf.config.retrieval import IndexConfig, SearchDefaults

    folder = OUT / f"{kind}_{lexical}"
    config = IndexConfig(kind=kind, lexical=lexical)  # type: ignore[arg-type]
    defaults = SearchDefaults(token_weights="idf")
    retriever = export_model(corpus, encoder, OUT / "vectors", folder, config, defaults)
    part = retriever.lexical
    size = part.num_bytes / retriever.searcher.num_tokens if part else 0.0
    (folder / "bytes.json").write_text(json.dumps(size))


def ask_in_process(model: Path, queries: Sequence[str], alphas: Sequence[float], threads: int) -> list[float]:
    """Medians in milliseconds with every `alpha`, or without any, measured in a separate process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(ask, (model, list(queries), list(alphas), threads))


def ask(model: Path, queries: list[str], alphas: list[float], threads: int) -> list[float]:
    """Runs every query in every way in turn, several times; returns the median of the best times."""
    from xtr_tf.retriever.versions import latest_version
    from xtr_tf.runtime import SavedModelSession
    from xtr_tf.runtime.session_options import SessionOptions

    options = SessionOptions(intra_op_threads=threads, inter_op_threads=threads)
    ways = [{"alpha": [alpha]} for alpha in alphas] or [{}]
    best = np.full((len(ways), len(queries)), np.inf)
    with SavedModelSession(latest_version(model), options=options) as session:
        for _ in range(ROUNDS + 1):
            for place, query in enumerate(queries):
                for way, parameters in enumerate(ways):
                    started = time.perf_counter()
                    session.run("search", {"query": [query], **parameters})
                    best[way, place] = min(best[way, place], 1000 * (time.perf_counter() - started))
    return [float(value) for value in np.median(best, axis=1)]


if __name__ == "__main__":
    main()
