"""The retriever: tokenizer, encoder, token search, scoring and documents as one exportable module.

Names are loaded on first use: importing this package needs no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtr_tf.config.retrieval import SearchDefaults as SearchDefaults
    from xtr_tf.retriever.retriever import Retriever as Retriever
    from xtr_tf.retriever.tables import DocumentTable as DocumentTable
    from xtr_tf.retriever.tables import TokenTable as TokenTable

_MODULES = {
    "DocumentTable": "document_table",
    "Retriever": "retriever",
    "SearchDefaults": "search_defaults",
    "TokenTable": "token_table",
}
__all__ = ["DocumentTable", "Retriever", "SearchDefaults", "TokenTable"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
