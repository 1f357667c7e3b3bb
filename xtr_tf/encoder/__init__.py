"""The T5 encoder with XTR's projection: layers, canonical weights, and directories on disk.

Names are loaded on first use: `xtr_tf.encoder.weights` needs no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xtr_tf.encoder.directory import load_encoder as load_encoder
    from xtr_tf.encoder.directory import save_encoder as save_encoder
    from xtr_tf.encoder.encoder import Encoder as Encoder
    from xtr_tf.encoder.weights import weight_shapes as weight_shapes

_MODULES = {
    "Encoder": "encoder",
    "load_encoder": "directory",
    "save_encoder": "directory",
    "weight_shapes": "weights",
}
__all__ = ["Encoder", "load_encoder", "save_encoder", "weight_shapes"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
