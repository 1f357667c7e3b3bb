"""A clustered corpus of token vectors, and indexes over it."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.index.build import build_index
from xtr_tf.index.vector_source import ArrayVectors

TOKENS, DIM = 4_000, 32


def normalise(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="session")
def vectors() -> np.ndarray:
    generator = np.random.default_rng(0)
    centres = normalise(generator.standard_normal((60, DIM)))
    noise = generator.standard_normal((TOKENS, DIM)) * 0.1
    return normalise(centres[generator.integers(0, len(centres), TOKENS)] + noise)


@pytest.fixture(scope="session")
def queries(vectors: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((45, DIM)) * 0.1
    return normalise(vectors[generator.integers(0, TOKENS, 45)] + noise)


@pytest.fixture(scope="session")
def source(vectors: np.ndarray) -> ArrayVectors:
    return ArrayVectors(vectors, np.arange(TOKENS, dtype=np.int32) // 20, encoder_fingerprint="test")


@pytest.fixture(scope="session")
def make_index(source, tmp_path_factory):
    """Returns a function from configuration to index; each configuration is built once."""
    built = {}

    def make(**fields):
        config = IndexConfig(**fields)
        if config not in built:
            built[config] = build_index(source, tmp_path_factory.mktemp("index") / "index", config)
        return built[config]

    return make
