"""Identifies the code of a component, so that cached results of other code are not used.

A component depends on the rooms that it imports, on those below them (the layers that import-linter
checks), and on its own file here. A change elsewhere, such as in the server, does not repeat the training.
This file does not import TFX.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from xtr_tf.retriever.model_card import installed_versions

_BASE = ("errors.py", "files.py", "collections", "config")
_MODEL = (*_BASE, "model")
_VECTORS = (*_MODEL, "vectors")
_INDEX = (*_VECTORS, "lexical", "scoring", "index")
_RETRIEVER = (*_INDEX, "runtime", "retriever")
_ALPHA = tuple(f"evaluation/{name}.py" for name in ("alpha", "metrics", "run"))

#: Folders and files of `xtr_tf` that each component runs.
_ROOMS: dict[str, tuple[str, ...]] = {
    "TrainingGen": (*_BASE, "training/data"),
    "CorpusGen": _BASE,
    "DataGate": _BASE,
    "NegativeMiner": (*_INDEX, "runtime", "training/data", "evaluation"),
    "Transform": (*_MODEL, "training/data"),
    "Trainer": (*_MODEL, "scoring", "training"),
    "CorpusEncoder": _VECTORS,
    "IndexBuilder": _INDEX,
    "RetrieverExporter": (*_RETRIEVER, *_ALPHA),
    "ServingValidator": _RETRIEVER,
    "RetrievalEvaluator": (*_RETRIEVER, "evaluation"),
}
#: Files and folders of this package and of `serving` that each component runs.
_OWN: dict[str, tuple[str, ...]] = {
    "TrainingGen": ("tfx_pipeline/data",),
    "CorpusGen": ("tfx_pipeline/data",),
    "DataGate": ("tfx_pipeline/data", "tfx_pipeline/components/data_gate.py"),
    "NegativeMiner": ("tfx_pipeline/components/negative_miner.py", "tfx_pipeline/data/splits.py"),
    "Transform": ("tfx_pipeline/components/transform.py",),
    "Trainer": ("tfx_pipeline/components/trainer.py",),
    "CorpusEncoder": ("tfx_pipeline/components/corpus_encoder.py",),
    "IndexBuilder": ("tfx_pipeline/components/index_builder.py",),
    "RetrieverExporter": (
        "tfx_pipeline/components/retriever_exporter.py",
        "tfx_pipeline/data/languages.py",
        "tfx_pipeline/data/splits.py",
    ),
    "ServingValidator": (
        "tfx_pipeline/components/serving_validator.py",
        "tfx_pipeline/components/serving_smoke_test.py",
        "serving/server",
        "serving/client",
    ),
    "RetrievalEvaluator": (
        "tfx_pipeline/components/retrieval_evaluator.py",
        "tfx_pipeline/blessing.py",
        "tfx_pipeline/data/languages.py",
        "tfx_pipeline/data/splits.py",
    ),
}
#: Our components whose results depend on our code.
COMPONENTS = tuple(_ROOMS)

_SOURCES = Path(__file__).resolve().parents[1]


def code_of(component: str, sources: Path = _SOURCES) -> str:
    """Hashes the code that a component runs: our sources and the versions of the packages below them.

    Args:
        component: One of `COMPONENTS`.
        sources: Folder that contains the packages.

    Returns:
        The hash in hexadecimal.
    """
    digest = hashlib.sha256(repr(sorted(installed_versions().items())).encode())
    for place in (*(f"xtr_tf/{room}" for room in _ROOMS[component]), *_OWN[component]):
        digest.update(_hash(sources / place).encode())
    return digest.hexdigest()[:24]


@functools.lru_cache
def _hash(place: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        digest.update(f"{path.relative_to(place.parent)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
