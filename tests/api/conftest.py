"""The shipped model, an index of a few passages, and a version exported from one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PASSAGES = [
    {"id": "baikal", "title": "Lake Baikal", "text": "Baikal is 1,642 m deep.", "language": "en"},
    {"id": "nil", "title": "Nil", "text": "Der Nil ist 6.650 km lang.", "language": "de"},
    {"id": "everest", "title": "Everest", "text": "Everest is 8,849 m high.", "language": "en"},
    {"id": "tea", "title": "茶", "text": "茶は世界中で飲まれている。", "language": "ja"},
]


@pytest.fixture(scope="session")
def model() -> Any:
    import xtr_tf

    return xtr_tf.load()


@pytest.fixture(scope="session")
def index(model: Any) -> Any:
    """An index that no test may change."""
    return model.index(PASSAGES, progress=False)


@pytest.fixture(scope="session")
def tiny_model(tiny_corpus: Any, built_once: Callable[..., Path]) -> Any:
    """A small random encoder, because a real one would take longer."""
    from xtr_tf.api.model import Model
    from xtr_tf.model.folder import save_encoder

    folder = built_once(
        "tiny_model", lambda root: save_encoder(root, tiny_corpus.encoder, tiny_corpus.tokenizer)
    )
    return Model(folder)


@pytest.fixture(scope="session")
def saved(tiny_model: Any, built_once: Callable[..., Path]) -> Path:
    """The base directory of one version, saved with defaults of its own."""

    def save(root: Path) -> None:
        index = tiny_model.index(PASSAGES, progress=False)
        opened = index.save(root / "models", top_k=2, k_prime=50, rescore=3, progress=False)
        assert len(opened) == len(PASSAGES)
        opened.close()

    return built_once("api_saved", save) / "models"
