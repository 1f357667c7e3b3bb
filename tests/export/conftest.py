"""Exports of the tiny corpus, one a kind of searcher."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtr_tf.runtime import SavedModelSession

QUERIES = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]


@pytest.fixture(scope="session")
def build_retriever(tiny_corpus: Any) -> Callable[[Any], Any]:
    """From a searcher to a retriever."""
    from xtr_tf.retriever import DocumentTable, Retriever, SearchDefaults, TokenTable

    def build(searcher: Any) -> Any:
        return Retriever(
            tiny_corpus.encoder,
            tiny_corpus.tokenizer,
            searcher,
            tiny_corpus.document_of_token,
            DocumentTable(tiny_corpus.documents),
            TokenTable(tiny_corpus.pieces, tiny_corpus.spans),
            SearchDefaults(k_prime=100, top_k=5),
        )

    return build


@dataclasses.dataclass(frozen=True)
class BuiltRetriever:
    """A retriever, with its signatures traced once for all tests."""

    retriever: Any
    signatures: dict[str, Any]


@pytest.fixture(scope="session")
def exact_retriever(tiny_corpus: Any, build_retriever: Any) -> BuiltRetriever:
    from xtr_tf.retriever.signatures import build_signatures
    from xtr_tf.search.exact_searcher import ExactSearcher

    retriever = build_retriever(ExactSearcher(tiny_corpus.vectors))
    return BuiltRetriever(retriever, build_signatures(retriever))


@pytest.fixture(scope="session")
def exact_export(exact_retriever: BuiltRetriever, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from xtr_tf.export import ModelCard, exporter

    card = ModelCard(encoder={}, tokenizer={}, corpus={}, index={"kind": "exact"}, defaults={})
    base = tmp_path_factory.mktemp("exact") / "atlas"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter, "build_signatures", lambda _: exact_retriever.signatures)
        return exporter.export_retriever(exact_retriever.retriever, base, card, queries=QUERIES).directory


@pytest.fixture(scope="session")
def exact_session(exact_export: Path) -> Iterator[SavedModelSession]:
    with SavedModelSession(exact_export) as session:
        yield session


@pytest.fixture(scope="session")
def directories(tiny_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny corpus as directories: `encoder`, `vectors`, and an index of each kind."""
    from xtr_tf.config.schema import IndexConfig
    from xtr_tf.corpus.shard_arrays import ShardArrays
    from xtr_tf.corpus.token_vectors import TokenVectors
    from xtr_tf.encoder import save_encoder
    from xtr_tf.index.build import build_index

    root = tmp_path_factory.mktemp("directories")
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
        build_index(vectors, root / kind, IndexConfig(kind=kind, cells=40))
    return root
