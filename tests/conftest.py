"""Fixtures for the tests of all parts."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.support.built_once import built_once as build_in_one_process
from tests.support.groups import GroupScheduling, order_of
from tests.support.processes import run_python

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# How long an example takes says more about the machine than about the code, and none is kept between runs.
settings.register_profile("tests", deadline=None, database=None, max_examples=200)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2000)
settings.load_profile("tests")

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of a group together, and the groups that take longest first."""
    items.sort(key=lambda item: order_of(item.path.relative_to(TESTS)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Tells pytest-xdist which tests belong to one worker."""
    return GroupScheduling(config, log)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Path]:
    """The folder that `far://bucket` is kept in."""
    from tests.support.far_file_system import FarFileSystem

    FarFileSystem.root, FarFileSystem.read = tmp_path / "far", []
    (FarFileSystem.root / "bucket").mkdir(parents=True)
    yield FarFileSystem.root / "bucket"
    del FarFileSystem.root, FarFileSystem.read


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measurement data, which is not part of the repository."""
    folder = Path(os.environ.get("XTR_TF_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measurement data; set XTR_TF_DATA to its folder (looked in {folder})")
    return folder


@pytest.fixture(scope="session")
def fresh_python() -> Callable[..., str]:
    """Runs a script in a new process and returns what it printed."""
    return run_python


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Returns a function that takes a name and a writer of a folder, and writes it once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return lambda name, build: build_in_one_process(shared / "built_once" / name, build)


@pytest.fixture(scope="module")
def encoders_loaded_once() -> Iterator[None]:
    """Loads an encoder once for all tests of a file, as a worker does for all shards of a job."""
    from xtr_tf.vectors.document_encoder import DocumentEncoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DocumentEncoder, "load", functools.lru_cache(maxsize=4)(DocumentEncoder.load))
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; if none may be mounted, a folder with that limit for files."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        yield place
    finally:
        if mounted.returncode:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        else:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


@dataclasses.dataclass(frozen=True)
class TinyCorpus:
    """A random encoder, and some documents encoded with it."""

    encoder: Any
    tokenizer: Any
    documents: list[Any]
    vectors: np.ndarray
    document_of_token: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray


@pytest.fixture(scope="session")
def tiny_corpus(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """Every fifth passage of the example corpus, with its own vocabulary and a small random encoder."""
    import sentencepiece
    import tensorflow as tf

    from xtr_tf.collections.document import Document, DocumentRecord
    from xtr_tf.config.model import EncoderConfig, TokenizerConfig
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.tokenizer import Tokenizer

    lines = (repository / "examples" / "atlas" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [
        Document(fields["_id"], fields["text"], fields["title"], fields["language"])
        for fields in map(json.loads, lines[::5])
    ]
    prefix = tmp_path_factory.mktemp("tiny") / "tiny"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([document.full_text.lower() for document in documents]),
        model_prefix=str(prefix),
        vocab_size=1500,
        character_coverage=0.995,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    tokenizer = Tokenizer(TokenizerConfig(model=f"{prefix}.model", query_length=16, document_length=64))
    config = EncoderConfig(
        vocabulary_size=1500,
        model_dim=32,
        feed_forward_dim=64,
        num_layers=2,
        num_heads=2,
        head_dim=16,
        projection_dim=32,
    )
    encoder = Encoder(config)
    tokens = tokenizer.with_offsets(tf.constant([document.full_text for document in documents]), 64)
    ids = tokens.ids.to_tensor(0)
    spans = tf.stack([tokens.character_starts.values, tokens.character_limits.values], axis=1)
    return TinyCorpus(
        encoder=encoder,
        tokenizer=tokenizer,
        documents=[
            dataclasses.replace(
                DocumentRecord.of(document), fields={"number": number, "group": f"g{number % 3}"}
            )
            for number, document in enumerate(documents)
        ],
        vectors=encoder(ids).numpy()[encoder.mask(ids).numpy()],
        document_of_token=tokens.ids.value_rowids().numpy().astype(np.int32),
        pieces=tokens.ids.values.numpy(),
        spans=spans.numpy(),
    )


@pytest.fixture(scope="session")
def tiny_postings(tiny_corpus: TinyCorpus) -> Any:
    """Which documents of the tiny corpus have which n-grams."""
    from xtr_tf.index.term_postings import TermPostings

    return TermPostings.of(tiny_corpus.documents, "ngrams")


@pytest.fixture(scope="session")
def tiny_retriever(tiny_corpus: TinyCorpus, tiny_postings: Any) -> Any:
    """An exact retriever over the tiny corpus, with BM25 over n-grams."""
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.index.frequencies import PieceFrequencies
    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.retriever.lexical_part import LexicalPart
    from xtr_tf.retriever.piece_weights import PieceWeights
    from xtr_tf.retriever.retriever import Retriever
    from xtr_tf.retriever.tables import DocumentTable, TokenTable

    offsets = np.searchsorted(tiny_corpus.document_of_token, np.arange(len(tiny_corpus.documents) + 1))
    frequencies = PieceFrequencies.of(tiny_corpus.pieces, offsets)
    return Retriever(
        tiny_corpus.encoder,
        tiny_corpus.tokenizer,
        ExactSearcher(tiny_corpus.vectors),
        tiny_corpus.document_of_token,
        DocumentTable(tiny_corpus.documents, {"number": "int", "group": "keyword"}),
        TokenTable(tiny_corpus.pieces, tiny_corpus.spans),
        SearchDefaults(k_prime=100, top_k=5),
        PieceWeights(frequencies.of_vocabulary(1500), len(tiny_corpus.documents), None),
        lexical=LexicalPart(tiny_postings, "ngrams"),
    )


@pytest.fixture(scope="session")
def signatures(tiny_retriever: Any) -> dict[str, Callable[..., Any]]:
    """The tiny retriever's signatures; each is traced when it is first called."""
    from xtr_tf.retriever.signatures import build_signatures

    return build_signatures(tiny_retriever)


@pytest.fixture(scope="session")
def exact_export(built_once: Callable[..., Path], tiny_retriever: Any, signatures: dict[str, Any]) -> Path:
    """The tiny retriever, exported through the gate, as version 1 of `atlas`; no test may change it."""
    from xtr_tf.retriever import export as exporter
    from xtr_tf.retriever.model_card import ModelCard

    queries = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]

    def export(folder: Path) -> None:
        card = ModelCard(
            encoder={}, tokenizer={}, corpus={}, index={"kind": "exact"}, defaults={"k_prime": 100}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exporter, "build_signatures", lambda _: signatures)
            exporter.export_retriever(tiny_retriever, folder / "atlas", card, queries=queries)

    return built_once("exact_export", export) / "atlas" / "1"


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
    for kind, lexical in (("exact", "ngrams"), ("scann", "none"), ("core", "none")):
        config = IndexConfig(kind=kind, num_leaves=40, lexical=lexical)
        build_index(vectors, root / kind, config)


@pytest.fixture(scope="session")
def collection_base(directories: Path, built_once: Callable[..., Path]) -> Path:
    """The exact index of `directories` as two partitions that return snippets; no test may change it."""
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.retriever.export_partitions import PartitionExport, export_partitions

    parts = (str(directories / name) for name in ("encoder", "vectors", "exact"))
    job = PartitionExport(*parts, 2, SearchDefaults(100, 5), store_text="snippet")
    return built_once("collection", lambda folder: export_partitions(job, folder))
