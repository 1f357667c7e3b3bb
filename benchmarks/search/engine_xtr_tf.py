"""xtr-tf: `scann` and `core` indexes, each a SavedModel run by TensorFlow's C library."""

from __future__ import annotations

import json
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from token_set import TOP_K, TokenSet, built, engine_main, measure, report, resident_bytes

LEAVES = {
    "scann": (8, 16, 32, 48, 80, 160, 320),
    "scann-int8": (8, 16, 32, 48, 80, 160, 320),
    "core": (1, 2, 4, 8, 16, 32, 64),
    "core-int4": (1, 2, 4, 8, 16, 32, 64),
}
OTHER_K_PRIMES = {
    "scann": {
        100: (8, 16, 32),
        300: (8, 16, 32, 80),
        600: (8, 16, 32, 80),
        2_000: (16, 32, 64, 128),
        4_000: (32, 64, 128),
        10_000: (128, 256),
        40_000: (50, 100, 200, 400),
    },
    "scann-int8": {40_000: (50, 100, 200, 400)},
    "core": {40_000: (4, 8, 16, 24, 48, 96)},
    "core-int4": {40_000: (4, 8, 16, 24, 48, 96)},
}
# Leaves, and candidates ranked again by exact f_ColBERT; k' is 1,000. Needs an index that keeps vectors.
RESCORED = {"scann-int8": ((8, 20), (16, 20), (16, 40), (32, 40), (32, 100), (80, 100), (160, 200))}


def build(tokens: TokenSet, folder: Path) -> None:
    from xtr_tf.config.retrieval import IndexConfig
    from xtr_tf.errors import InputError
    from xtr_tf.index.build import build_index
    from xtr_tf.index.quantizer import train_quantizer
    from xtr_tf.index.vector_source import ArrayVectors

    source = ArrayVectors(tokens.vectors, tokens.document_of_token)
    configs = {
        "scann": IndexConfig(),
        "scann-int8": IndexConfig(reordering=True),
        "core": IndexConfig(kind="core"),
    }
    try:
        configs["core-int4"] = IndexConfig(kind="core", dtype="int4")
    except InputError as error:  # an earlier commit
        print(f"skipped core-int4: {error}", file=sys.stderr)
    start = time.perf_counter()
    quantizer = train_quantizer(source, configs["scann"])
    training = time.perf_counter() - start
    for name, config in configs.items():
        start = time.perf_counter()
        shared = None if config.dtype else quantizer
        index = build_index(source, folder / name / "index", config, shared)
        seconds = (training if shared else 0) + time.perf_counter() - start
        _export(index, folder / name / "model")
        built(folder / name / "model", seconds)


def _export(index, folder: Path) -> None:  # type: ignore[no-untyped-def]
    import tensorflow as tf

    from xtr_tf.index.searchers.opening import searcher_from_index
    from xtr_tf.scoring.maxsim import rescore_documents
    from xtr_tf.scoring.xtr import score_documents

    module = tf.Module()
    module.searcher = searcher_from_index(index)
    module.documents, look_up = _documents_of_tokens(index)
    signature = [
        tf.TensorSpec([None, index.dim], name="vectors"),
        tf.TensorSpec([], tf.int32, name="k_prime"),
        tf.TensorSpec([], tf.int32, name="leaves"),
    ]

    def mask(vectors):  # type: ignore[no-untyped-def]
        return tf.ones([1, tf.shape(vectors)[0]], tf.bool)

    def rank(vectors, k_prime, leaves, top_k):  # type: ignore[no-untyped-def]
        hits = module.searcher.search(vectors, k_prime, leaves)
        return score_documents(hits, mask(vectors), look_up, index.num_documents, top_k)

    @tf.function(input_signature=signature)
    def search(vectors, k_prime, leaves):  # type: ignore[no-untyped-def]
        return rank(vectors, k_prime, leaves, TOP_K)._asdict()

    @tf.function(input_signature=signature)
    def tokens(vectors, k_prime, leaves):  # type: ignore[no-untyped-def]
        hits = module.searcher.search(vectors, k_prime, leaves)
        return {"cutoffs": hits.cutoffs, "last": hits.token_ids[:, -1]}

    signatures = {"search": search, "tokens": tokens}
    if index.manifest.config.reordering:
        module.offsets = tf.Variable(index.document_offsets, trainable=False)

        @tf.function(input_signature=[*signature, tf.TensorSpec([], tf.int32, name="candidates")])
        def rescore(vectors, k_prime, leaves, candidates):  # type: ignore[no-untyped-def]
            ranked = rank(vectors, k_prime, leaves, candidates)
            queries, vectors_of = vectors[tf.newaxis], module.searcher.vectors_of
            ranked = rescore_documents(ranked, queries, mask(vectors), vectors_of, module.offsets)
            return {"ordinals": ranked.ordinals[:, :TOP_K]}

        signatures["rescore"] = rescore
    tf.saved_model.save(module, str(folder), signatures=signatures)


def _documents_of_tokens(index):  # type: ignore[no-untyped-def]
    """Returns what the model keeps to find the documents of hits, and what scoring takes for it."""
    import tensorflow as tf

    try:
        from xtr_tf.scoring.token_owners import TokenOwners
    except ImportError:  # an earlier commit, whose scoring takes the document of every token
        documents = tf.Variable(index.document_of_token, trainable=False)
        return documents, documents
    owners = TokenOwners(index.document_of_token)
    return owners, owners.look_up


def run(tokens: TokenSet, folder: Path, threads: int) -> None:
    # One process each: memory that one model frees would hide what the next one takes.
    for name in (name for name in LEAVES if (folder / name / "model").is_dir()):
        process = get_context("spawn").Process(target=_run_model, args=(name, tokens, folder, threads))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"measuring {name} failed")


def _run_model(name: str, tokens: TokenSet, folder: Path, threads: int) -> None:
    from xtr_tf.runtime.saved_model_session import SavedModelSession
    from xtr_tf.runtime.session_options import SessionOptions

    model = folder / name / "model"
    before = resident_bytes()
    options = SessionOptions(threads, threads, rewrite_graph=True)
    with SavedModelSession(model, options=options) as session:
        details = json.loads((model / "built.json").read_text())
        details["memory_bytes"] = resident_bytes() - before
        settings = [(1_000, leaves) for leaves in LEAVES[name]]
        settings += [(k, leaves) for k, own in OTHER_K_PRIMES[name].items() for leaves in own]
        for k_prime, leaves in settings:
            _measure_setting(session, name, k_prime, leaves, tokens, threads, details)
        for leaves, candidates in RESCORED.get(name, ()):
            _measure_rescoring(session, leaves, candidates, tokens, threads, details)


def _measure_setting(session, name, k_prime, leaves, tokens, threads, details):  # type: ignore[no-untyped-def]
    request = {"k_prime": np.int32(k_prime), "leaves": np.int32(leaves)}

    def search(vectors: np.ndarray) -> np.ndarray:
        return session.run("search", {"vectors": vectors, **request})["ordinals"][0]

    def only_tokens(vectors: np.ndarray) -> list[int]:
        session.run("tokens", {"vectors": vectors, **request})
        return []

    measured = measure(search, tokens.queries)
    alone = measure(only_tokens, tokens.queries)
    measured["scoring_share"] = max(0.0, 1 - alone["mean_ms"] / measured["mean_ms"])
    report(f"xtr-tf {name}", f"k'={k_prime}, {leaves} leaves", threads, k_prime, {**measured, **details})


def _measure_rescoring(session, leaves, candidates, tokens, threads, details):  # type: ignore[no-untyped-def]
    values = {"k_prime": 1_000, "leaves": leaves, "candidates": candidates}
    request = {name: np.int32(value) for name, value in values.items()}

    def search(vectors: np.ndarray) -> np.ndarray:
        return session.run("rescore", {"vectors": vectors, **request})["ordinals"][0]

    measured = {**measure(search, tokens.queries), "scoring_share": float("nan"), **details}
    # No k': a ranking by f_ColBERT is compared with f_ColBERT only.
    report("xtr-tf rescored", f"{leaves} leaves, {candidates} rescored", threads, 0, measured)


if __name__ == "__main__":
    engine_main(__doc__, build, run)
