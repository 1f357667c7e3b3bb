"""Fixtures that every part's tests may use."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# How long an example takes says more of the machine than of the code, and none is kept between runs.
settings.register_profile("tests", deadline=None, database=None)
settings.load_profile("tests")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measurement data, which is no part of the repository."""
    folder = Path(os.environ.get("XTR_TF_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measurement data; set XTR_TF_DATA to its folder (looked in {folder})")
    return folder


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
    """Every fifth passage of the example corpus, with a vocabulary of its own and a small random encoder."""
    import sentencepiece
    import tensorflow as tf

    from xtr_tf.config.schema import EncoderConfig, TokenizerConfig
    from xtr_tf.corpus.document import Document, DocumentRecord
    from xtr_tf.encoder import Encoder
    from xtr_tf.tokenizer import Tokenizer

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
        documents=[DocumentRecord.of(document) for document in documents],
        vectors=encoder(ids).numpy()[encoder.mask(ids).numpy()],
        document_of_token=tokens.ids.value_rowids().numpy().astype(np.int32),
        pieces=tokens.ids.values.numpy(),
        spans=spans.numpy(),
    )
