"""Golden checkpoints: tiny, random, and written by the same libraries as published ones.

`make parity` points XTR_TF_GOLDEN to freshly written ones.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import sentencepiece
from safetensors import safe_open

from xtr_tf.config.model import TokenizerConfig


class Expected(NamedTuple):
    """What transformers computes from a golden checkpoint."""

    ids: np.ndarray
    vectors: np.ndarray
    projection: np.ndarray
    texts: list[str]


class Golden:
    """The folder of golden checkpoints."""

    names = ("released_xtr", "sharded_mt5", "torch_t5", "legacy_torch_mt5", "t5x_t5")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spiece = folder / "released_xtr" / "spiece.model"
        self.tokenizer = TokenizerConfig(model=str(self.spiece), query_length=64, document_length=64)

    def path(self, name: str) -> Path:
        return self.folder / name

    def expected(self, name: str) -> Expected:
        with safe_open(self.folder / f"{name}.expected.safetensors", framework="numpy") as file:
            tensors = [file.get_tensor(key) for key in ("ids", "vectors", "projection")]
            return Expected(*tensors, texts=json.loads(file.metadata()["texts"]))


@pytest.fixture(scope="session")
def golden(repository: Path) -> Golden:
    return Golden(Path(os.environ.get("XTR_TF_GOLDEN", repository / "tests" / "golden")) / "checkpoints")


@pytest.fixture(scope="session")
def atlas(repository: Path) -> Path:
    """The multilingual example corpus."""
    return repository / "examples" / "atlas" / "corpus.jsonl"


@pytest.fixture(scope="session")
def atlas_vocabulary(atlas: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A unigram vocabulary trained on the example corpus, cased, with T5's special ids and byte pieces."""
    file = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    texts = [json.loads(line)["text"] for line in atlas.read_text("utf-8").splitlines()[::2]]
    with file.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*texts, *(text.lower() for text in texts)]),
            model_writer=writer,
            vocab_size=3000,
            character_coverage=0.999,
            seed_sentencepiece_size=10_000,
            num_threads=1,
            byte_fallback=True,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
        )
    return file
