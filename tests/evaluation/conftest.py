"""A small random encoder on disk, the example collection, and an export of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.loading import load_datasets


@pytest.fixture(scope="session")
def atlas(repository: Path) -> Dataset:
    """The example's test questions."""
    [dataset] = load_datasets([repository / "examples" / "atlas"])
    return dataset


@pytest.fixture(scope="session")
def encoder_directory(tiny_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder; passages have 64 tokens, queries 16."""
    from xtr_tf.model.folder import save_encoder

    directory = tmp_path_factory.mktemp("evaluation") / "encoder"
    save_encoder(directory, tiny_corpus.encoder, tiny_corpus.tokenizer)
    return directory


@pytest.fixture(scope="session")
def loaded_encoder(tiny_corpus: Any) -> Any:
    from xtr_tf.evaluation.encoder_model import LoadedEncoder

    return LoadedEncoder(tiny_corpus.encoder, tiny_corpus.tokenizer)


@pytest.fixture(scope="session")
def atlas_index(atlas: Dataset, loaded_encoder: Any) -> Any:
    """All tokens of the example corpus."""
    return loaded_encoder.encode_documents(list(atlas.corpus), "atlas")


@pytest.fixture(scope="session")
def exported_directory(tiny_corpus: Any, atlas_index: Any, built_once: Callable[..., Path]) -> Path:
    """A model with an exact index of the whole example corpus, as a SavedModel."""
    return built_once("atlas_export", lambda folder: export_atlas(tiny_corpus, atlas_index, folder)) / "atlas"


def export_atlas(tiny_corpus: Any, atlas_index: Any, folder: Path) -> None:
    """Saves the signatures that an evaluation calls."""
    import tensorflow as tf

    from xtr_tf.collections.document import DocumentRecord
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.index.term_postings import TermPostings
    from xtr_tf.retriever.lexical_part import LexicalPart
    from xtr_tf.retriever.retriever import Retriever
    from xtr_tf.retriever.signatures import build_signatures
    from xtr_tf.retriever.tables import DocumentTable

    records = [DocumentRecord.of(document) for document in atlas_index.documents]
    retriever = Retriever(
        tiny_corpus.encoder,
        tiny_corpus.tokenizer,
        ExactSearcher(atlas_index.vectors),
        atlas_index.document_of_token,
        DocumentTable(records),
        defaults=SearchDefaults(k_prime=100, top_k=10, alpha=0.4),
        lexical=LexicalPart(TermPostings.of(records, "ngrams"), "ngrams"),
    )
    built = build_signatures(retriever)
    signatures = {name: built[name] for name in ("search", "encode_query", "encode_document")}
    tf.saved_model.save(retriever, str(folder / "atlas" / "1"), signatures=signatures)
