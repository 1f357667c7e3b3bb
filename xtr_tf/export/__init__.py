"""From a retriever to a published version: writing, warm-up, reference answers, and the gate.

Names are loaded on first use: the gate itself must not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtr_tf.export.assembly import assemble_retriever as assemble_retriever
    from xtr_tf.export.exporter import export_retriever as export_retriever
    from xtr_tf.export.gate import verify_model as verify_model
    from xtr_tf.export.model_card import ModelCard as ModelCard

_MODULES = {
    "ModelCard": "model_card",
    "assemble_retriever": "assembly",
    "export_retriever": "exporter",
    "verify_model": "gate",
}
__all__ = ["ModelCard", "assemble_retriever", "export_retriever", "verify_model"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
