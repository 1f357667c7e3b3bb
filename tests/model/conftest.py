"""Small vocabularies, and small encoders with only random weights, so that a missing one is noticed."""

from __future__ import annotations

import dataclasses
import io
import json
import tarfile
from pathlib import PurePosixPath

import numpy as np
import pytest

from xtr_tf.config.model import EncoderConfig, TokenizerConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.vocabulary import train_vocabulary

SMALL = EncoderConfig(
    vocabulary_size=101,
    model_dim=32,
    feed_forward_dim=48,
    num_layers=2,
    num_heads=3,
    head_dim=16,
    projection_dim=24,
)


def random_encoder(**changes) -> Encoder:
    encoder = Encoder(dataclasses.replace(SMALL, **changes))
    random = np.random.default_rng(7)
    weights = encoder.get_canonical_weights()
    for name in weights:
        if name.endswith("/scale"):
            weights[name] = random.uniform(0.5, 1.5, weights[name].shape).astype(np.float32)
    encoder.set_canonical_weights(weights)
    return encoder


@pytest.fixture(scope="session")
def make_encoder():
    return random_encoder


@pytest.fixture(scope="session")
def small_encoder() -> Encoder:
    return random_encoder()


@pytest.fixture
def make_ids():
    """Rows of random ids that end in 1, padded with 0 to `width`."""
    random = np.random.default_rng(11)

    def make(lengths: list[int], width: int | None = None) -> np.ndarray:
        ids = np.zeros((len(lengths), width or max(lengths)), np.int32)
        for row, length in zip(ids, lengths, strict=True):
            if length:
                row[: length - 1] = random.integers(2, SMALL.vocabulary_size, length - 1)
                row[length - 1] = 1
        return ids

    return make


@pytest.fixture(scope="session")
def atlas_texts(repository) -> list[str]:
    lines = (repository / "examples" / "atlas" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    return [f"{document['title']} {document['text']}" for document in documents]


@pytest.fixture(scope="session")
def atlas_model(atlas_texts, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("vocabulary") / "atlas.model"
    train_vocabulary(atlas_texts, 4000, path)
    return str(path)


@pytest.fixture(scope="session")
def atlas_tokenizer(atlas_model) -> Tokenizer:
    return Tokenizer(TokenizerConfig(model=atlas_model, query_length=16, document_length=64))


@pytest.fixture(scope="session")
def xquad_texts(shared_data) -> dict[str, list[str]]:
    """Documents and queries of xquad_r by language."""
    texts: dict[str, list[str]] = {}
    with tarfile.open(shared_data / "test" / "xquad_r.tar.xz") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.name in ("corpus.jsonl", "queries.jsonl"):
                entries = map(json.loads, io.TextIOWrapper(archive.extractfile(member), "utf-8"))
                texts.setdefault(path.parent.name, []).extend(
                    f"{entry.get('title', '')} {entry['text']}".strip() for entry in entries
                )
    return texts
