"""Reads the checkpoints of T5X, the JAX code base of T5.

A checkpoint is a folder with a zarr array for each tensor that was partitioned over devices, and a
MessagePack file, `checkpoint`, with the others.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor, numpy_dtype
from xtr_tf.checkpoints.msgpack_arrays import read_msgpack_arrays
from xtr_tf.errors import InputError

# Decoders of plain bytes. zarr knows others, one of which unpickles: arrays that name them are listed, so
# that an optimiser's state may hold anything, and never read.
_COMPRESSORS = frozenset({None, "blosc", "bz2", "gzip", "lz4", "zlib", "zstd"})
_DTYPES = {
    "<f8": "float64",
    "<f4": "float32",
    "<f2": "float16",
    "bfloat16": "bfloat16",
    "<i8": "int64",
    "<i4": "int32",
    "<u4": "uint32",
    "<u2": "uint16",
}


def read_t5x(folder: Path) -> dict[str, LazyTensor]:
    """Lists the tensors of a checkpoint folder under names such as `target/encoder/encoder_norm/scale`.

    Raises:
        InputError: An array is damaged, incomplete, or stored in a way that is not supported.
    """
    tensors = {
        array.parent.name.replace(".", "/"): _read_zarr(array.parent)
        for array in sorted(folder.glob("*/.zarray"))
    }
    embedded = folder / "checkpoint"
    if embedded.is_file():
        arrays = read_msgpack_arrays(embedded)
        tensors.update({name.removeprefix("optimizer/"): array for name, array in arrays.items()})
    return tensors


def _read_zarr(folder: Path) -> LazyTensor:
    try:
        description = json.loads((folder / ".zarray").read_text("utf-8"))
        shape = tuple(int(size) for size in description["shape"])
        stored = description["dtype"]
        compressor = (description["compressor"] or {}).get("id")
        filters = description.get("filters")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"A zarr array's `.zarray` must be JSON of zarr version 2. Received: {str(folder)!r}."
        ) from error
    if stored not in _DTYPES or compressor not in _COMPRESSORS or filters:
        return LazyTensor(shape, f"{stored} behind {filters or compressor}", _never)
    # Before June 2021 T5X kept the bits of bfloat16 in uint16.
    dtype = "bfloat16" if stored == "<u2" else _DTYPES[stored]
    return LazyTensor(shape, dtype, lambda: _values(folder, dtype))


def _never() -> np.ndarray:
    raise RuntimeError("A tensor of an unsupported type was read.")


def _values(folder: Path, dtype: str) -> np.ndarray:
    try:
        import zarr
    except ImportError as error:
        raise InputError(
            f"T5X checkpoints need the zarr package; install xtr-tf[train]. Received: {str(folder)!r}."
        ) from error
    array = zarr.open_array(str(folder), mode="r")
    # zarr itself reads a chunk that is not there as zeros.
    if array.nchunks_initialized != array.nchunks:
        raise InputError(
            "A zarr array must have all of its chunks; fetch it again. "
            f"Received: {array.nchunks_initialized} of {array.nchunks} in {str(folder)!r}."
        )
    try:
        values = array[...]
    except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"A zarr array is truncated or damaged; fetch it again. Received: {str(folder)!r} ({error})."
        ) from error
    return values.view(numpy_dtype(dtype)) if dtype == "bfloat16" else values
