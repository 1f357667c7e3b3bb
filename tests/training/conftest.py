"""A run small enough for tests: the example corpus, a vocabulary learned from it, a very small encoder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def base_run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from xtr_tf.config.model import EncoderConfig, TokenizerSettings
    from xtr_tf.config.training import DataConfig, LossConfig, RunConfig, SourceConfig, TrainingConfig
    from xtr_tf.model.vocabulary import train_vocabulary

    atlas = repository / "examples" / "atlas"
    model = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    config = RunConfig(
        tokenizer=TokenizerSettings(model=str(model), query_length=8, document_length=16),
        encoder=EncoderConfig(
            vocabulary_size=2000,
            model_dim=128,
            feed_forward_dim=32,
            num_layers=1,
            num_heads=2,
            head_dim=16,
            projection_dim=16,
            dropout=0.1,
        ),
        loss=LossConfig(k_train=16, temperature=0.05),
        data=DataConfig(train=(SourceConfig(path=str(atlas)),), language_temperature=2.0),
        training=TrainingConfig(
            steps=6, batch_size=8, warmup_steps=2, learning_rate=1e-2, checkpoint_every=100, log_every=2
        ),
    )
    lines = (atlas / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    train_vocabulary((json.loads(line)["text"] for line in lines), 2000, model)
    return config


@pytest.fixture
def tiny_run(base_run: Any, tmp_path: Path) -> Callable[..., Any]:
    """Makes the configuration with some training settings changed, writing to a folder of the test's own."""

    def make(output: str = "run", **training: Any) -> Any:
        changed = dataclasses.replace(base_run.training, output=str(tmp_path / output), **training)
        return dataclasses.replace(base_run, training=changed)

    return make
