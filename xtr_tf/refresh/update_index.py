"""A new version of an index from the last one and the vectors of what has come.

Tokens that stay keep their cells and codes, which are copied without those that go; only tokens
that come are assigned and coded, by the index's own cells and codebooks. So the new index is the
one that a full build with these cells and codebooks would make, and nothing in it is masked or
waiting to be compacted. When to train new cells is `retraining.py`'s business.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from xtr_tf.corpus.files import directory_aside
from xtr_tf.corpus.token_vectors import TokenVectors
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.token_index import TokenIndex
from xtr_tf.refresh.join_indexes import IndexPart, join_indexes
from xtr_tf.refresh.retraining import TrainingState
from xtr_tf.refresh.trained_quantizer import trained_quantizer


def update_index(
    index: TokenIndex, vectors: TokenVectors, kept: np.ndarray, directory: str | Path
) -> TokenIndex:
    """Writes the index of `vectors`, of which a part is in `index` already.

    Args:
        index: The last version.
        vectors: The new version's vectors, of `update_vectors`: shards of documents that stay,
            then shards of new ones.
        kept: `[documents of the last version]` bool.
        directory: A new directory, which appears when it is whole.

    Raises:
        InputError: If the directory exists, or the index is not of these documents or encoder.
    """
    directory = Path(directory)
    if directory.exists():
        raise InputError(
            f"A refresh makes a new directory; choose another name. Received: {str(directory)!r}."
        )
    check_belongs(index, vectors, kept)
    old = IndexPart(index, np.repeat(kept, np.diff(index.document_offsets)))
    new = vectors.shards_from(old.num_tokens)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".refresh-") as work:
        parts = [old]
        if new.num_tokens:
            built = build_index(new, Path(work) / "new", index.config, trained_quantizer(index))
            parts.append(IndexPart(built))
        with directory_aside(directory) as aside:
            TrainingState.of(index).write(aside)
            join_indexes(parts, vectors.document_offsets, aside)
    return TokenIndex.open(directory)


def check_belongs(index: TokenIndex, vectors: TokenVectors, kept: np.ndarray) -> None:
    """Raises `InputError` unless `vectors` begin with the documents of `index` that are kept."""
    check_encoder(index.encoder_fingerprint, vectors.encoder_fingerprint)
    counts = np.diff(index.document_offsets)
    stay = int(np.count_nonzero(kept)) if len(kept) == len(counts) else -1
    if stay < 0 or not np.array_equal(np.diff(vectors.document_offsets)[:stay], counts[kept]):
        raise InputError(
            "These token vectors are not the ones the index was built from; give those. "
            f"Received: {vectors.directory} for {index.directory}."
        )


def check_encoder(expected: str, found: str) -> None:
    """Raises `InputError` unless both are fingerprints of one encoder."""
    if expected != found:
        raise InputError(
            "An index takes only vectors of its own encoder; encode with that one or build a new index. "
            f"Received: encoder {found[:12]} instead of {expected[:12]}."
        )
