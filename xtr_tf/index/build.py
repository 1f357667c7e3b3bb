"""From token vectors to an index directory, holding one block of vectors at a time.

The quantiser is trained on a sample; then the corpus is read once (`scann`, `exact`) or twice
(`core`, whose vectors lie by cell), block by block, straight into files mapped to memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np

from xtr_tf.config.schema import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.index.folder import IndexManifest, TokenIndex, file_entries
from xtr_tf.index.quantizer import TokenQuantizer, train_quantizer
from xtr_tf.index.vector_source import VectorSource

_BLOCK = 65_536


def build_index(
    source: VectorSource,
    directory: str | Path,
    config: IndexConfig | None = None,
    quantizer: TokenQuantizer | None = None,
) -> TokenIndex:
    """Builds an index; the directory appears when it is whole.

    Args:
        source: The token vectors.
        directory: New, or one to take the place of.
        config: The kind of index and its parameters; the default configuration if None.
        quantizer: Cells and codebooks of another index, to use instead of training new ones.

    Returns:
        The opened index.

    Raises:
        InputError: If there are no tokens, or vectors that are not finite.

    Example:
        >>> build_index(TokenVectors.open("out/vectors"), "out/index", IndexConfig(kind="core"))
    """
    config = config or IndexConfig()
    if source.num_tokens == 0:
        raise InputError(
            "An index needs at least one token; encode a corpus with text first. Received: 0 tokens."
        )
    directory = Path(directory)
    with atomic_directory(directory, overwrite=True) as aside:
        if config.kind == "exact":
            _write_exact(source, aside, config.dtype or "float16")
        else:
            quantizer = quantizer or train_quantizer(source, config)
            _save(aside, "centres", quantizer.centres)
            _save(aside, "multipliers", quantizer.multipliers)
            if config.kind == "scann":
                _write_scann(source, aside, quantizer, config.reordering)
            else:
                _write_core(source, aside, quantizer, config.dtype or "int8")
        offsets = np.asarray(source.document_offsets, np.int64)
        _save(aside, "document_offsets", offsets)
        IndexManifest(
            source.num_tokens,
            len(offsets) - 1,
            source.dim,
            config,
            source.encoder_fingerprint,
            file_entries(aside),
        ).write(aside)
    return TokenIndex.open(directory)


def _write_exact(source: VectorSource, folder: Path, dtype: str) -> None:
    vectors = _create(folder, "vectors", (source.num_tokens, source.dim), _stored_dtype(dtype))
    for rows, block in _checked_blocks(source):
        vectors[rows] = _stored(block, dtype)
    vectors.flush()


def _write_scann(source: VectorSource, folder: Path, quantizer: TokenQuantizer, reordering: bool) -> None:
    blocks = len(quantizer.codebook)
    _save(folder, "codebook", quantizer.codebook)
    cells = _create(folder, "cells", (source.num_tokens,), quantizer.cell_dtype)
    codes = _create(folder, "codes", (source.num_tokens, (blocks + 1) // 2), np.dtype(np.uint8))
    written = [cells, codes]
    if reordering:
        int8 = _create(folder, "int8", (source.num_tokens, source.dim), np.dtype(np.int8))
        written.append(int8)
    for rows, block in _checked_blocks(source):
        cells[rows] = quantizer.assign(block)
        codes[rows] = quantizer.encode(block, cells[rows])
        if reordering:
            int8[rows] = quantizer.to_int8(block)
    for array in written:
        array.flush()


def _write_core(source: VectorSource, folder: Path, quantizer: TokenQuantizer, dtype: str) -> None:
    cells = np.empty(source.num_tokens, quantizer.cell_dtype)
    for rows, block in _checked_blocks(source):
        cells[rows] = quantizer.assign(block)
    tokens = np.argsort(cells, kind="stable").astype(np.int32)
    _save(folder, "tokens", tokens)
    _save(folder, "cell_offsets", np.searchsorted(cells[tokens], np.arange(len(quantizer.centres) + 1)))
    slots = np.empty_like(tokens)
    slots[tokens] = np.arange(source.num_tokens, dtype=np.int32)
    vectors = _create(folder, "vectors", (source.num_tokens, source.dim), _stored_dtype(dtype))
    for rows, block in _checked_blocks(source):
        vectors[slots[rows]] = quantizer.to_int8(block) if dtype == "int8" else _stored(block, dtype)
    vectors.flush()


def _checked_blocks(source: VectorSource) -> Iterator[tuple[slice, np.ndarray]]:
    start = 0
    for block, _ in source.blocks(_BLOCK):
        if not np.isfinite(block).all():
            raise InputError(
                "Token vectors must be finite; encode the corpus again. Received: NaN or infinity."
            )
        yield slice(start, start + len(block)), block
        start += len(block)


def _stored_dtype(dtype: str) -> np.dtype:
    return np.dtype({"bfloat16": "uint16"}.get(dtype, dtype))


def _stored(block: np.ndarray, dtype: str) -> np.ndarray:
    return block.astype(ml_dtypes.bfloat16).view(np.uint16) if dtype == "bfloat16" else block.astype(dtype)


def _create(folder: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.memmap:
    return np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)


def _save(folder: Path, name: str, array: np.ndarray) -> None:
    np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
