"""Where the time of one query goes, part by part, and how fast the machine could be at best.

One SavedModel has a signature for every prefix of a query: the call only, the call with tokenizing, and so on
up to the strings of the best documents. The time of a part is the difference between its prefix and the one
before, so that the parts add up to the whole query. Prefixes take turns, query by query, so that a slow
moment of the machine affects all of them.

The limit is the time of FAISS' fast scan over as many 4-bit codes as the query's tokens look at, in one list
that fits into the cache, for the best code only: no centres, no selection, no documents.

`run.py` measures its own index with it. For any number of clustered vectors, without the measurement data:

    python benchmarks/search/breakdown.py --clustered 5_000_000 --threads 2
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
ENCODER = REPOSITORY / "models" / "mxtr_tiny"
WORK = REPOSITORY / ".bench"
TOKENS = (8, 16, 32)
K_PRIMES = (300, 1_000, 4_000, 40_000)
TOP_K = 10
#: Prefixes in order, by the name of their last part.
PARTS = (
    "call",
    "tokenizing",
    "encoder",
    "centres",
    "codes",
    "selection",
    "gathering",
    "scoring",
    "top",
    "strings",
)
#: The parts that `search` over vectors consists of, which is compared with the limit.
SEARCH = PARTS[PARTS.index("centres") : PARTS.index("strings")]
#: Query tokens and k' of `limit_ratio`.
JUDGED = (16, 1_000)
HEADER = (
    f"{'tokens':>6} {'kprime':>6} {'leaves':>6} "
    + " ".join(f"{part:>10}" for part in PARTS)
    + f" {'search':>8} {'limit':>8} {'ratio':>7}"
)
_SCANNED = 131_072

Clock = Callable[[], float]


def export(index_folder: Path, out: Path) -> None:
    """Writes the SavedModel with a signature for every prefix."""
    import tensorflow as tf

    from xtr_tf.index.folder import TokenIndex
    from xtr_tf.index.searchers.opening import searcher_from_index
    from xtr_tf.model.folder import load_encoder
    from xtr_tf.scoring.ranking import RankedDocuments
    from xtr_tf.scoring.token_owners import TokenOwners
    from xtr_tf.scoring.xtr import map_queries, score_all_documents, score_documents

    index = TokenIndex.open(index_folder)
    encoder, tokenizer = load_encoder(ENCODER)
    module = tf.Module()
    module.searcher = searcher_from_index(index)
    module.owners = TokenOwners(index.document_of_token)
    module.ids = tf.Variable([f"document-{i}" for i in range(index.num_documents)], trainable=False)
    module.tokenizer = tokenizer
    # As in the product: a Keras object swaps its variables while it is saved, and loaders do not find them.
    module.weights = [variable.value for variable in encoder.variables]
    encode = encoder.inference

    def tokenized(query: tf.Tensor) -> tf.Tensor:
        return tokenizer.ragged(query, tokenizer.config.query_length).to_tensor(tokenizer.pad_id)

    def searched(query: tf.Tensor, vectors: tf.Tensor, k_prime: Any, leaves: Any) -> Any:
        # The vectors are not from this encoder; its result only has to be waited for. A control
        # dependency on it would be optimised away.
        encoded = encode(tokenized(query))[0]
        factor = tf.where(tf.reduce_any(tf.math.is_nan(encoded)), np.float32(np.nan), 1.0)
        return module.searcher.search(vectors * factor, k_prime, leaves)

    def mask(vectors: tf.Tensor) -> tf.Tensor:
        return tf.ones([1, tf.shape(vectors)[0]], tf.bool)

    def last(hits: Any) -> dict[str, tf.Tensor]:
        return {"cutoffs": hits.cutoffs, "last": hits.token_ids[:, -1], "valid": hits.valid[:, -1]}

    def scored(hits: Any, vectors: tf.Tensor) -> tf.Tensor:
        return map_queries(
            lambda query: score_all_documents(query, index.num_documents),
            *(hits, mask(vectors), module.owners.look_up, "top_k_prime", 0.0, None),
            returns=tf.TensorSpec([None], tf.float32),
        )

    def ranked(query: tf.Tensor, vectors: tf.Tensor, k_prime: Any, leaves: Any) -> RankedDocuments:
        hits = searched(query, vectors, k_prime, leaves)
        return score_documents(hits, mask(vectors), module.owners.look_up, index.num_documents, TOP_K)

    prefixes: dict[str, Callable[..., dict[str, tf.Tensor]]] = {
        "call": lambda q, v, k, leaves: {"rows": tf.shape(v), "queries": tf.shape(q)},
        "tokenizing": lambda q, v, k, leaves: {"ids": tokenized(q)},
        "encoder": lambda q, v, k, leaves: {"vectors": encode(tokenized(q))[0]},
        "centres": lambda q, v, k, leaves: last(searched(q, v, tf.constant(1), tf.constant(1))),
        "codes": lambda q, v, k, leaves: last(searched(q, v, tf.constant(1), leaves)),
        "selection": lambda q, v, k, leaves: last(searched(q, v, k, leaves)),
        "gathering": lambda q, v, k, leaves: {
            "last": module.owners.look_up(searched(q, v, k, leaves).token_ids)[:, -1]
        },
        "scoring": lambda q, v, k, leaves: {"first": scored(searched(q, v, k, leaves), v)[:, :1]},
        "top": lambda q, v, k, leaves: ranked(q, v, k, leaves)._asdict(),
        "strings": lambda q, v, k, leaves: {
            "ids": tf.gather(module.ids, tf.maximum(ranked(q, v, k, leaves).ordinals, 0))
        },
    }
    specs = [
        tf.TensorSpec([1], tf.string, name="query"),
        tf.TensorSpec([None, index.dim], name="vectors"),
        tf.TensorSpec([], tf.int32, name="k_prime"),
        tf.TensorSpec([], tf.int32, name="leaves"),
    ]
    functions = {
        name: tf.function(prefix, input_signature=specs, autograph=False) for name, prefix in prefixes.items()
    }
    tf.saved_model.save(module, str(out), signatures=functions)


def measure(
    session: Any, query: str, pool: np.ndarray, k_prime: int, leaves: int, rounds: int, clock: Clock
) -> dict[str, float]:
    """Milliseconds of each part: medians over the rounds of each prefix, and their differences."""
    times: dict[str, list[float]] = {name: [] for name in PARTS}
    numbers = {"k_prime": np.int32(k_prime), "leaves": np.int32(leaves)}
    for round_ in range(rounds + 2):
        inputs = {"query": [query], "vectors": pool[round_ % len(pool)], **numbers}
        for name in PARTS:
            start = clock()
            session.run(name, inputs)
            if round_ >= 2:
                times[name].append(1e3 * (clock() - start))
    medians = [float(np.median(times[name])) for name in PARTS]
    return dict(zip(PARTS, np.diff(medians, prepend=0.0).tolist(), strict=True))


def scan_nanoseconds(rows: int, dim: int, threads: int, clock: Clock) -> float:
    """Nanoseconds that a bare scan takes per code and query token, the best of several runs."""
    import faiss

    faiss.omp_set_num_threads(threads)
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((_SCANNED, dim), np.float32)
    index = faiss.index_factory(dim, f"PQ{dim // 2}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:16_384])
    index.add(vectors)
    queries = np.ascontiguousarray(vectors[:rows])
    best = float("inf")
    for _ in range(20):
        start = clock()
        index.search(queries, 1)
        best = min(best, clock() - start)
    return 1e9 * best / (rows * _SCANNED)


class Leaves:
    """The leaves of an index: how many a query searches, and how many codes they contain.

    Args:
        folder: The index.
    """

    def __init__(self, folder: Path) -> None:
        from xtr_tf.index.folder import TokenIndex

        index = TokenIndex.open(folder)
        self._centres = np.asarray(index.array("centres"))
        self.num_tokens = index.num_tokens
        self._sizes = np.bincount(np.asarray(index.array("cells")), minlength=len(self._centres))

    def by_rule(self, k_prime: int) -> int:
        """The number of leaves that the index searches by default for a k'."""
        from xtr_tf.index.rules import SEARCHED_SHARE, TOKENS_PER_K_PRIME

        leaves = len(self._centres)
        needed = math.ceil(TOKENS_PER_K_PRIME * k_prime * leaves / self.num_tokens)
        return min(max(needed, round(SEARCHED_SHARE * leaves), 1), leaves)

    def codes(self, pool: np.ndarray, leaves: int) -> float:
        """Codes that the tokens of a query look at, on average over `[queries, tokens, dim]`."""
        scores = pool.reshape(-1, pool.shape[-1]) @ self._centres.T
        nearest = np.argpartition(-scores, leaves - 1, axis=1)[:, :leaves]
        return float(self._sizes[nearest].sum() / len(pool))


def query_of(session: Any, vectors: np.ndarray) -> str:
    """Returns a text with as many tokens as there are vectors."""
    tokens = len(vectors)
    others = {"vectors": vectors, "k_prime": np.int32(1), "leaves": np.int32(1)}
    for words in range(1, tokens + 1):
        text = " ".join(["the"] * words)
        if session.run("tokenizing", {"query": [text], **others})["ids"].shape[1] == tokens:
            return text
    raise SystemExit(f"no text has {tokens} tokens")


def report(arguments: argparse.Namespace) -> None:
    """Measures all settings and prints a row of the table for each."""
    from xtr_tf.runtime.saved_model_session import SavedModelSession
    from xtr_tf.runtime.session_options import SessionOptions

    encoded = np.load(arguments.vectors / "queries.npz")["vectors"]
    leaves_of = Leaves(arguments.index)
    options = SessionOptions(arguments.threads, arguments.threads, rewrite_graph=True)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    of = "processor time" if arguments.cpu_time else "a query"
    print(f"milliseconds of {of}, {arguments.threads} thread(s), {leaves_of.num_tokens} tokens")
    print(HEADER)
    ratios = {}
    with SavedModelSession(arguments.model, options=options) as session:
        for rows in TOKENS:
            pool = encoded[: len(encoded) // rows * rows].reshape(-1, rows, encoded.shape[1])
            nanoseconds = scan_nanoseconds(rows, encoded.shape[1], arguments.threads, clock)
            text = query_of(session, pool[0])
            for k_prime in K_PRIMES:
                leaves = leaves_of.by_rule(k_prime)
                parts = measure(session, text, pool, k_prime, leaves, arguments.rounds, clock)
                limit = 1e-6 * nanoseconds * leaves_of.codes(pool, leaves)
                search = sum(parts[name] for name in SEARCH)
                ratios[rows, k_prime] = search / limit
                print(
                    f"{rows:6} {k_prime:6} {leaves:6} "
                    + " ".join(f"{parts[name]:10.3f}" for name in PARTS)
                    + f" {search:8.3f} {limit:8.3f} {search / limit:7.2f}",
                    flush=True,
                )
    print(f"RESULT breakdown limit_ratio={ratios[JUDGED]:.2f}")


def build_clustered(tokens: int) -> tuple[Path, Path]:
    """Returns an index of clustered vectors, and their folder; both are written if they do not exist."""
    from synthetic import write_clustered
    from token_set import TokenSet

    from xtr_tf.config.retrieval import IndexConfig
    from xtr_tf.index.build import build_index
    from xtr_tf.index.vector_source import ArrayVectors

    name = f"clustered-{tokens}"
    vectors, index = WORK / "vectors" / name, WORK / "search" / name / "breakdown"
    own = TokenSet(write_clustered(vectors, tokens), tokens)
    if not index.is_dir():
        build_index(ArrayVectors(own.vectors, own.document_of_token), index, IndexConfig())
    return index, vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, help="folder of an index of kind scann")
    parser.add_argument("--vectors", type=Path, help="folder with queries.npz")
    parser.add_argument("--model", type=Path, help="the SavedModel, written if it does not exist")
    parser.add_argument("--clustered", type=int, help="number of clustered vectors to index instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cpu-time", action="store_true", help="processor time, on a busy machine")
    arguments = parser.parse_args()
    if arguments.clustered:
        arguments.index, arguments.vectors = build_clustered(arguments.clustered)
        arguments.model = arguments.index.with_name(f"{arguments.index.name}-model")
    elif not (arguments.index and arguments.vectors and arguments.model):
        parser.error("give --clustered, or --index, --vectors and --model")
    if not arguments.model.is_dir():
        export(arguments.index, arguments.model)
        # The rest is measured as in a server, in a process without Python TensorFlow.
        os.execv(sys.executable, [sys.executable, "-W", "ignore", *sys.argv])
    os.sched_setaffinity(0, range(arguments.threads))
    report(arguments)


if __name__ == "__main__":
    main()
