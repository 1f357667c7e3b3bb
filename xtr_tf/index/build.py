"""From token vectors to an index directory, with one block of vectors in memory at a time.

The quantiser is trained on a sample. Then the corpus is read block by block, directly into memory-mapped
files: once for `scann` and `exact`, and twice for `core`, whose vectors are sorted by leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.index.folder import IndexManifest, TokenIndex, create_array, file_entries, save_array
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.quantizer import TokenQuantizer, train_quantizer
from xtr_tf.index.rules import with_kind
from xtr_tf.index.term_postings import write_term_postings
from xtr_tf.index.vector_source import VectorSource, require_finite, require_tokens
from xtr_tf.progress import track
from xtr_tf.vectors.token_lengths import UNIT_LENGTH

#: Tokens in memory at a time.
BLOCK = 65_536


def build_index(
    source: VectorSource,
    directory: str | Path,
    config: IndexConfig | None = None,
    quantizer: TokenQuantizer | None = None,
    is_part: bool = False,
) -> TokenIndex:
    """Builds an index. The directory appears when it is complete.

    Args:
        source: The token vectors.
        directory: A new directory, or an existing one to replace.
        config: The kind of index and its parameters; the default configuration if None.
        quantizer: Leaves and codebooks of another index, to use instead of training new ones.
        is_part: Whether this is a part that will be joined with others. The joined index then gets the
            trained arrays and the term postings, and the part has none.

    Returns:
        The opened index.

    Raises:
        InputError: If there are no tokens, if vectors are not finite, or if `config.lexical` needs texts that
            the source does not have.

    Example:
        >>> build_index(TokenVectors.open("out/vectors"), "out/index", IndexConfig(kind="core"))
    """
    require_tokens(source.num_tokens)
    config = with_kind(config or IndexConfig(), source.num_tokens)
    directory = Path(directory)
    with atomic_directory(directory, overwrite=True) as aside:
        if config.kind == "exact":
            _write_exact(source, aside, config.dtype or "float16")
        else:
            quantizer = quantizer or train_quantizer(source, config)
            if not is_part:
                quantizer.write(aside)
            if config.kind == "scann":
                _write_scann(source, aside, quantizer, config.reordering)
            else:
                _write_core(source, aside, quantizer, config.dtype or "int8")
        offsets = np.asarray(source.document_offsets, np.int64)
        save_array(aside, "document_offsets", offsets)
        pieces = getattr(source, "pieces", None)
        if pieces is not None:
            PieceFrequencies.of(pieces, offsets).write(aside)
        if config.lexical != "none" and not is_part:
            write_term_postings(_documents(source), config.lexical, aside)
        IndexManifest(
            source.num_tokens,
            len(offsets) - 1,
            source.dim,
            config,
            source.encoder_fingerprint,
            file_entries(aside),
            quantizer.fingerprint if quantizer and is_part else "",
            getattr(source, "token_lengths", UNIT_LENGTH),
        ).write(aside)
    return TokenIndex.open(directory)


def _documents(source: VectorSource) -> Iterator[DocumentRecord]:
    documents = getattr(source, "documents", None)
    if documents is None:
        raise InputError(
            "`index.lexical` needs vectors that come with their documents, as `xtr-tf encode` writes them. "
            f"Received: {type(source).__name__}."
        )
    yield from documents()


def _write_exact(source: VectorSource, folder: Path, dtype: str) -> None:
    vectors = create_array(folder, "vectors", (source.num_tokens, source.dim), _stored_dtype(dtype))
    for rows, block in _checked_blocks(source):
        vectors[rows] = _stored(block, dtype)
    vectors.flush()


def _write_scann(source: VectorSource, folder: Path, quantizer: TokenQuantizer, reordering: bool) -> None:
    blocks = len(quantizer.codebook)
    leaf_of_token = create_array(folder, "cells", (source.num_tokens,), quantizer.leaf_dtype)
    codes = create_array(folder, "codes", (source.num_tokens, (blocks + 1) // 2), np.dtype(np.uint8))
    written = [leaf_of_token, codes]
    if reordering:
        int8 = create_array(folder, "int8", (source.num_tokens, source.dim), np.dtype(np.int8))
        written.append(int8)
    for rows, block in _checked_blocks(source):
        leaf_of_token[rows] = quantizer.assign(block)
        codes[rows] = quantizer.encode(block, leaf_of_token[rows])
        if reordering:
            int8[rows] = quantizer.to_int8(block)
    for array in written:
        array.flush()


def _write_core(source: VectorSource, folder: Path, quantizer: TokenQuantizer, dtype: str) -> None:
    leaf_of_token = np.empty(source.num_tokens, quantizer.leaf_dtype)
    for rows, block in _checked_blocks(source):
        leaf_of_token[rows] = quantizer.assign(block)
    posting_of_token = write_postings(folder, leaf_of_token, len(quantizer.centres))
    width = source.dim // 2 if dtype == "int4" else source.dim
    vectors = create_array(folder, "vectors", (source.num_tokens, width), _stored_dtype(dtype))
    for rows, block in _checked_blocks(source):
        if dtype == "int4":
            stored = quantizer.to_int4(block, leaf_of_token[rows])
        else:
            stored = quantizer.to_int8(block) if dtype == "int8" else _stored(block, dtype)
        vectors[posting_of_token[rows]] = stored
    vectors.flush()


def write_postings(folder: Path, leaf_of_token: np.ndarray, num_leaves: int) -> np.ndarray:
    """Writes the tokens of each leaf of a `core` index, sorted by leaf and within a leaf by token.

    Args:
        folder: The folder of the index.
        leaf_of_token: `[tokens]` integers.
        num_leaves: Number of all leaves, including those without tokens.

    Returns:
        `[tokens]` int32, the position of each token among the postings, which is the row of its vector.
    """
    postings = np.argsort(leaf_of_token, kind="stable").astype(np.int32)
    save_array(folder, "tokens", postings)
    leaf_offsets = np.searchsorted(leaf_of_token[postings], np.arange(num_leaves + 1))
    save_array(folder, "cell_offsets", leaf_offsets)
    return inverse_permutation(postings)


def inverse_permutation(order: np.ndarray) -> np.ndarray:
    """Returns the position of each of `0 .. len(order) - 1` in `order`.

    Args:
        order: `[any]` integers, a permutation.

    Returns:
        `[any]` integers of the same dtype.
    """
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order), dtype=order.dtype)
    return inverse


def _checked_blocks(source: VectorSource) -> Iterator[tuple[slice, np.ndarray]]:
    start = 0
    with track("index", source.num_tokens, "tokens") as progress:
        for block, _ in source.blocks(BLOCK):
            require_finite(block)
            yield slice(start, start + len(block)), block
            start += len(block)
            progress.advance(len(block))


def _stored_dtype(dtype: str) -> np.dtype:
    return np.dtype({"bfloat16": "uint16", "int4": "uint8"}.get(dtype, dtype))


def _stored(block: np.ndarray, dtype: str) -> np.ndarray:
    return block.astype(ml_dtypes.bfloat16).view(np.uint16) if dtype == "bfloat16" else block.astype(dtype)
