r"""Does a filtered search answer like an index of only the allowed documents, and what does it cost?

    make bench-filter                                   # models/mxtr_tiny, a million tokens
    make bench-filter ARGS="ENCODER --tokens 200000"    # another encoder, fewer tokens

Sentences of real abstracts are the documents, titles the queries. A random field lets 50, 10, 1 and .1% of
the documents pass. The answers under the filter are compared with those of three indexes of only these
documents: the whole index after the others were deleted, which has the same leaves and codes; one built from
these documents, with its own leaves and codes; and an exact one, the ground truth. The table also shows how
far the second is from the ground truth, because two indexes that store codes cannot agree more than that.
Cost is the processor time of a query with the filter, divided by that of the same query without it. The two
take turns in one process, each several times, and the smallest time counts. Ends with one line,

    RESULT bench-filter overlap_50=… overlap_10=… overlap_1=… overlap_01=… worst_cost_ratio=… rebuilt_50=… …

where an overlap is that of the first ten documents with the index after deletion (`rebuilt`: with the one
that was built), the lower of `scann` and `core`. The ratio is the worst over all shares, both kinds, and one
and two threads.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import shutil
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

OUT = Path(".bench/filter")
KINDS, THREADS = ("scann", "core"), (1, 2)
#: Documents per thousand that a filter lets pass, by the name of their share.
SHARES = {"50": 500, "10": 100, "1": 10, "01": 1}
FIELDS = {"draw": "int"}
QUERIES, ROUNDS, TOP_K = 50, 5, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--data", default="../shared/data", type=Path)
    arguments = parser.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    queries = write_corpora(arguments.data, arguments.tokens)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {arguments}")
    print("| index | allowed | overlap after deletion | with one built | with exact | built with exact |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    overlaps: dict[str, list[float]] = {f"overlap_{name}": [] for name in SHARES}
    overlaps |= {f"rebuilt_{name}": [] for name in SHARES}
    truth: dict[str, Any] = {}
    for kind in ("exact", *KINDS):
        small = in_process(answers_of_small_indexes, arguments.encoder, kind, queries)
        if kind == "exact":
            truth = small
            continue
        filtered = in_process(filtered_answers, arguments.encoder, kind, queries)
        left = in_process(answers_after_deletion, arguments.encoder, kind, queries)
        for name in SHARES:
            agreed = overlap(left[name], filtered[name]), overlap(small[name], filtered[name])
            overlaps[f"overlap_{name}"].append(agreed[0])
            overlaps[f"rebuilt_{name}"].append(agreed[1])
            of_both = [overlap(truth[name], own[name]) for own in (filtered, small)]
            shown = " | ".join(f"{value:.3f}" for value in (*agreed, *of_both))
            print(f"| {kind} | {SHARES[name] / 10:g}% | {shown} |", flush=True)
    worst = {name: f"{name}={min(values):.3f}" for name, values in overlaps.items()}
    after, built = ([worst[f"{kind}_{name}"] for name in SHARES] for kind in ("overlap", "rebuilt"))
    cost = measure_costs(queries)
    print(f"RESULT bench-filter {' '.join(after)} worst_cost_ratio={cost:.2f} {' '.join(built)}")


def measure_costs(queries: Sequence[str]) -> float:
    """Prints what a filter costs; returns the worst ratio."""
    print("| index | threads | without |", " | ".join(f"{value / 10:g}%" for value in SHARES.values()), "|")
    print("|---|---:|---:|" + "---:|" * len(SHARES))
    worst = 0.0
    for kind in KINDS:
        for threads in THREADS:
            plain, *filtered = in_process(processor_times, kind, queries, threads)
            ratios = [value / plain for value in filtered]
            worst = max(worst, *ratios)
            print(
                f"| {kind} | {threads} | {plain:.2f} ms |",
                " | ".join(f"{r:.2f}" for r in ratios),
                "|",
                flush=True,
            )
    return worst


def write_corpora(data: Path, tokens: int) -> list[str]:
    """Writes sentences with a random number below 1,000, all and the allowed ones; returns queries."""
    rng = np.random.default_rng(0)
    sentences: list[str] = []
    titles, characters = [], 0
    with lzma.open(data / "train" / "acl_title_abstract_en.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            pair = json.loads(line)
            titles.append(pair["query"])
            sentences += [part for part in pair["text"].split(". ") if part.strip()]
            characters += len(pair["text"])
            if characters >= 4.4 * tokens:  # of mxtr_tiny's vocabulary
                break
    # Every number occurs equally often, so that the shares are exact.
    draws = rng.permutation(np.arange(len(sentences)) % 1000)
    records = [
        (int(draw), json.dumps({"_id": str(number), "text": text, "draw": int(draw)}) + "\n")
        for number, (text, draw) in enumerate(zip(sentences, draws, strict=True))
    ]
    for name, limit in {"all": 1000, **SHARES}.items():
        (OUT / f"{name}.jsonl").write_text("".join(line for draw, line in records if draw < limit))
    print(f"{len(sentences):,} sentences")
    return titles[:: max(1, len(titles) // QUERIES)][:QUERIES]


def in_process(function: Any, *arguments: Any) -> Any:
    """Calls a function in its own process, whose memory is freed when it ends."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def encode(encoder: Path, corpus: str) -> Path:
    """Token vectors of a corpus; the whole is encoded once, and those of a share are copied from it."""
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.vectors.encode import encode_corpus

    folder = OUT / f"vectors_{corpus}"
    if not (folder / "manifest.json").is_file():
        whole = encode(encoder, "all") if corpus != "all" else None
        encode_corpus(OUT / f"{corpus}.jsonl", encoder, folder, EncodingConfig(fields=FIELDS), reuse=whole)
    return folder


def assemble(encoder: Path, corpus: str, kind: str) -> Any:
    """An index of a corpus as a retriever."""
    from xtr_tf.config.retrieval import IndexConfig, SearchDefaults
    from xtr_tf.index.build import build_index
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.vectors.store import TokenVectors

    folder = encode(encoder, corpus)
    index = build_index(TokenVectors.open(folder), OUT / f"{kind}_{corpus}", IndexConfig(kind=kind))  # type: ignore[arg-type]
    return assemble_retriever(encoder, folder, index.directory, SearchDefaults(top_k=TOP_K), "none", False)


def answers_of_small_indexes(
    encoder: Path, kind: str, queries: Sequence[str]
) -> dict[str, list[list[bytes]]]:
    """Documents that indexes of only the allowed documents find, by share."""
    from xtr_tf.retriever.session import RetrieverSession

    answers = {}
    for name in SHARES:
        session = RetrieverSession(assemble(encoder, name, kind).retriever)
        answers[name] = found(session, queries)
    return answers


def answers_after_deletion(encoder: Path, kind: str, queries: Sequence[str]) -> dict[str, list[list[bytes]]]:
    """Documents that the whole index finds after the others are deleted from it, by share."""
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.index.folder import TokenIndex
    from xtr_tf.index.update import update_index
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.session import RetrieverSession
    from xtr_tf.vectors.store import TokenVectors

    whole, answers = TokenIndex.open(OUT / f"{kind}_all"), {}
    every = TokenVectors.open(encode(encoder, "all")).document_ids
    for name in SHARES:
        vectors = TokenVectors.open(encode(encoder, name))
        kept = np.isin(every, vectors.document_ids)
        index = update_index(whole, vectors, kept, OUT / f"{kind}_left_{name}")
        defaults = SearchDefaults(top_k=TOP_K)
        left = assemble_retriever(encoder, vectors.directory, index.directory, defaults, "none", False)
        answers[name] = found(RetrieverSession(left.retriever), queries)
    return answers


def filtered_answers(encoder: Path, kind: str, queries: Sequence[str]) -> dict[str, list[list[bytes]]]:
    """Exports the whole index, and searches it with the filter of each share."""
    from xtr_tf.retriever.export import export_retriever
    from xtr_tf.runtime import SavedModelSession

    assembly = assemble(encoder, "all", kind)
    exported = export_retriever(assembly.retriever, OUT / f"model_{kind}", assembly.card)
    with SavedModelSession(exported.directory) as session:
        return {name: found(session, queries, filter=[f"draw<{limit}"]) for name, limit in SHARES.items()}


def found(session: Any, queries: Sequence[str], **parameters: Any) -> list[list[bytes]]:
    """The documents of each query."""
    answer = session.run("search", {"query": list(queries), **parameters})
    return [[identifier for identifier in ids if identifier] for ids in answer["document_ids"]]


def processor_times(kind: str, queries: Sequence[str], threads: int) -> list[float]:
    """Milliseconds per query: without a filter, and with that of each share."""
    from xtr_tf.retriever.versions import latest_version
    from xtr_tf.runtime import SavedModelSession
    from xtr_tf.runtime.session_options import SessionOptions

    options = SessionOptions(intra_op_threads=threads, inter_op_threads=threads, spinning=False)
    filters = ["", *(f"draw<{limit}" for limit in SHARES.values())]
    best = np.full((len(filters), len(queries)), np.inf)
    with SavedModelSession(latest_version(OUT / f"model_{kind}"), options=options) as session:
        for _ in range(ROUNDS + 1):
            for place, query in enumerate(queries):
                for way, text in enumerate(filters):
                    started = time.process_time()
                    session.run("search", {"query": [query], "filter": [text]})
                    best[way, place] = min(best[way, place], 1000 * (time.process_time() - started))
    return [float(value) for value in best.mean(axis=1)]


def overlap(expected: Sequence[Sequence[bytes]], answers: Sequence[Sequence[bytes]]) -> float:
    """The share of the expected documents that were found, averaged over queries."""
    pairs = zip(expected, answers, strict=True)
    return float(np.mean([len(set(own) & set(other)) / len(own) for own, other in pairs if own]))


if __name__ == "__main__":
    main()
