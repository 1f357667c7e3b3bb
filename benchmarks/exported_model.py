"""Exports a model of a corpus, for benchmarks that search one. Imports xtr_tf only when it is called.

Also says how documents are encoded where the quality of the shipped encoder is measured.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xtr_tf.config.retrieval import IndexConfig, SearchDefaults
    from xtr_tf.retriever.retriever import Retriever

#: Lengths of token vectors, chosen on development sets (benchmarks/mxtr/README.md).
LENGTHS = {"length_penalty": 0.06, "repetition_bonus": 0.06}


def export_model(
    corpus: Path, encoder: Path, vectors: Path, folder: Path, index: IndexConfig, defaults: SearchDefaults
) -> Retriever:
    """Encodes a corpus, builds its index and exports both; replaces what is in the folder.

    Args:
        corpus: The corpus, in any layout.
        encoder: An encoder's directory.
        vectors: Where its vectors are kept; they are encoded once.
        folder: For the index (`index`) and the versions of the model (`model`).
        index: The index.
        defaults: What the model searches by.

    Returns:
        The exported retriever.
    """
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.index.build import build_index
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.export import export_retriever
    from xtr_tf.vectors.encode import encode_corpus
    from xtr_tf.vectors.store import TokenVectors

    encode_corpus(corpus, encoder, vectors, EncodingConfig(**LENGTHS))
    shutil.rmtree(folder, ignore_errors=True)
    built = build_index(TokenVectors.open(vectors), folder / "index", index)
    assembly = assemble_retriever(encoder, vectors, built.directory, defaults, "none")
    export_retriever(assembly.retriever, folder / "model", assembly.card)
    return assembly.retriever
