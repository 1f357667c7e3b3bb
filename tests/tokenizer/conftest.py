"""A vocabulary trained on the embedded corpus, and that corpus' texts."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import PurePosixPath

import pytest

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.vocabulary import train_vocabulary


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
