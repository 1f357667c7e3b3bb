"""The exported tiny corpus in a session, and the directories that exports of it are assembled from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtr_tf.runtime import SavedModelSession


@pytest.fixture(scope="session")
def exact_session(exact_export: Path) -> Iterator[SavedModelSession]:
    with SavedModelSession(exact_export) as session:
        yield session


@pytest.fixture(scope="session")
def sessions(published: dict[str, Path]) -> Iterator[dict[str, SavedModelSession]]:
    """One session on the exported model of every kind of index."""
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(SavedModelSession(path)) for kind, path in published.items()}


@pytest.fixture(scope="session")
def published(exact_export: Path, directories: Path, built_once: Callable[..., Path]) -> dict[str, Path]:
    """An exported model of every kind of index; no test may change them."""
    base = built_once("published", lambda root: export_kinds(directories, root))
    return {"exact": exact_export, "scann": base / "scann" / "1", "core": base / "core" / "1"}


def export_kinds(directories: Path, base: Path) -> None:
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.export import export_retriever

    queries = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]
    for kind in ("scann", "core"):
        assembly = assemble_retriever(
            directories / "encoder", directories / "vectors", directories / kind, SearchDefaults(100, 5)
        )
        export_retriever(assembly.retriever, base / kind, assembly.card, queries=queries)


@pytest.fixture(scope="session")
def directories(tiny_corpus: Any, built_once: Callable[..., Path]) -> Path:
    """The tiny corpus as directories: `encoder`, `vectors`, and an index of each kind."""
    return built_once("directories", lambda root: write_directories(tiny_corpus, root))


def write_directories(tiny_corpus: Any, root: Path) -> None:
    from xtr_tf.config.retrieval import IndexConfig
    from xtr_tf.index.build import build_index
    from xtr_tf.model.folder import save_encoder
    from xtr_tf.vectors.shard import ShardArrays
    from xtr_tf.vectors.store import TokenVectors

    fingerprint = save_encoder(root / "encoder", tiny_corpus.encoder, tiny_corpus.tokenizer)
    lengths = np.bincount(tiny_corpus.document_of_token).astype(np.int32)
    shard = ShardArrays(
        documents=tiny_corpus.documents,
        vectors=tiny_corpus.vectors,
        pieces=tiny_corpus.pieces,
        spans=tiny_corpus.spans,
        positions=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        passage_tokens=lengths,
        passage_documents=np.arange(len(lengths), dtype=np.int32),
    )
    vectors = TokenVectors.write(root / "vectors", [shard], fingerprint)
    for kind in ("exact", "scann", "core"):
        build_index(vectors, root / kind, IndexConfig(kind=kind, num_leaves=40))
