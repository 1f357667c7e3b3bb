"""Finds the shared libraries with the ops that a model needs beyond TensorFlow's own.

They follow from the ops that the model's file names, so that a model without ScaNN runs where ScaNN is not
installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xtr_tf.runtime.protos import package_directory

# By the beginning of an op's name: (package, library).
_LIBRARIES = {
    "Sentencepiece": ("tensorflow_text", "python/ops/_sentencepiece_tokenizer.so"),
    "FastSentencepiece": ("tensorflow_text", "python/ops/_fast_sentencepiece_tokenizer.so"),
    "TFText>FastSentencepiece": ("tensorflow_text", "python/ops/_fast_sentencepiece_tokenizer.so"),
    "CaseFoldUTF8": ("tensorflow_text", "python/ops/_normalize_ops.so"),
    "NormalizeUTF8": ("tensorflow_text", "python/ops/_normalize_ops.so"),
    "Scann>": ("scann", "scann_ops/cc/_scann_ops.so"),
}


def ops_of(graph_def: Any) -> set[str]:
    """Returns the names of all ops in a `tensorflow.GraphDef` and its functions."""
    ops = {node.op for node in graph_def.node}
    for function in graph_def.library.function:
        ops.update(node.op for node in function.node_def)
    return ops - {function.signature.name for function in graph_def.library.function}


def libraries_for(ops: set[str]) -> list[Path]:
    """Returns the libraries that define those of `ops` which are not TensorFlow's own.

    An op that is in none of these libraries is left to TensorFlow, whose error names it if TensorFlow does
    not know it either.
    """
    needed = {entry for op in ops for beginning, entry in _LIBRARIES.items() if op.startswith(beginning)}
    return [package_directory(package) / library for package, library in sorted(needed)]
