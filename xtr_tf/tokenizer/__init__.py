"""Text to ids and back: the in-graph `Tokenizer`, and training a vocabulary (`vocabulary.py`).

`Tokenizer` is loaded on first use, so that training a vocabulary needs no TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtr_tf.tokenizer.tokenizer import Tokenizer as Tokenizer
    from xtr_tf.tokenizer.tokenizer import TokenSpans as TokenSpans

__all__ = ["TokenSpans", "Tokenizer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from xtr_tf.tokenizer import tokenizer

        return getattr(tokenizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
