"""Small encoders whose every weight is random, so that none can be left out unnoticed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder

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
