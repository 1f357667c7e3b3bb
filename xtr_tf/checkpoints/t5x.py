"""Reads the checkpoints of T5X, the JAX code base of T5.

A checkpoint is a folder with a zarr array for each tensor that was partitioned over devices, and a
MessagePack file, `checkpoint`, with the others.
"""

from __future__ import annotations

import json
import math
import mmap
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor, mapped_array, numpy_dtype
from xtr_tf.errors import InputError

# Decoders of plain bytes. zarr has others, one of which unpickles. Arrays that name those are listed, because
# an optimizer's state may contain anything, but never read.
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
    # Before June 2021 T5X stored the bits of bfloat16 as uint16.
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
    # zarr itself reads a missing chunk as zeros.
    if array.nchunks_initialized != array.nchunks:
        raise InputError(
            "A zarr array must have all of its chunks; download it again. "
            f"Received: {array.nchunks_initialized} of {array.nchunks} in {str(folder)!r}."
        )
    try:
        values = array[...]
    except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"A zarr array is truncated or damaged; download it again. Received: {str(folder)!r} ({error})."
        ) from error
    return values.view(numpy_dtype(dtype)) if dtype == "bfloat16" else values


# Levels of nested maps; only a file made to exhaust the stack has more.
_DEEPEST = 64
# Flax's own MessagePack types: an array, and a scalar stored as one.
_ARRAY_EXTENSIONS = (1, 3)
# How Flax stores an array of more than a gigabyte.
_CHUNKED = "__msgpack_chunked_array__"
# Enough bytes for the shape and type of any array.
_LONGEST_DESCRIPTION = 1024


def read_msgpack_arrays(path: Path) -> dict[str, LazyTensor]:
    """Lists every array of a file under its `/`-joined path.

    The file is read once, one value at a time, to find the offsets of the arrays. Their values are mapped
    when they are needed.

    Raises:
        InputError: The file is truncated or not MessagePack.
    """
    try:
        import msgpack
    except ImportError as error:
        raise InputError(
            f"T5X checkpoints need the msgpack package; install xtr-tf[train]. Received: {str(path)!r}."
        ) from error
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            unpacker = msgpack.Unpacker(mapped, ext_hook=_array_description, max_buffer_size=0)
            tree = _tree(path, mapped, unpacker, depth=0)
        return dict(_leaves(tree, ""))
    except (ValueError, TypeError, KeyError, IndexError, msgpack.exceptions.UnpackException) as error:
        raise InputError(
            "A MessagePack file is truncated or damaged; download it again. "
            f"Received: {str(path)!r} ({error})."
        ) from error


class _Array(NamedTuple):
    """An array inside a MessagePack file, whose values are the last bytes of its entry."""

    shape: tuple[int, ...]
    dtype: str
    length: int


def _tree(path: Path, mapped: mmap.mmap, unpacker: Any, depth: int) -> Any:
    """Decodes the next value: maps to dictionaries, arrays to `LazyTensor`s."""
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    first = mapped[unpacker.tell()]
    if 0x80 <= first <= 0x8F or first in (0xDE, 0xDF):  # how a map begins
        tree = {}
        for _ in range(unpacker.read_map_header()):
            name = unpacker.unpack()
            if not isinstance(name, str):
                raise TypeError("a map with a key that is not a text")
            tree[name] = _tree(path, mapped, unpacker, depth + 1)
        return tree
    value = unpacker.unpack()
    if isinstance(value, _Array):
        return _lazy(path, unpacker.tell() - value.length, value)
    return value


def _array_description(kind: int, content: bytes) -> _Array | None:
    """Decodes an extension; an array is `[shape, dtype, values]`, and its values are not read."""
    import msgpack

    if kind not in _ARRAY_EXTENSIONS:
        return None
    unpacker = msgpack.Unpacker()
    unpacker.feed(content[:_LONGEST_DESCRIPTION])
    if unpacker.read_array_header() != 3:
        raise ValueError("an array that is not described by shape, type and values")
    shape, dtype = tuple(unpacker.unpack()), unpacker.unpack()
    length = math.prod(shape) * numpy_dtype(dtype).itemsize
    # The length of the values follows the description: one byte for its type, then 1, 2 or 4 bytes.
    if len(content) - unpacker.tell() - length not in (2, 3, 5):
        raise ValueError(f"an array of shape {shape} and type {dtype} in {len(content)} bytes")
    return _Array(shape, dtype, length)


def _lazy(path: Path, start: int, array: _Array) -> LazyTensor:
    return LazyTensor(array.shape, array.dtype, lambda: mapped_array(path, start, array.dtype, array.shape))


def _leaves(tree: Any, path: str) -> list[tuple[str, LazyTensor]]:
    if isinstance(tree, LazyTensor):
        return [(path, tree)]
    if not isinstance(tree, dict):
        return []
    if _CHUNKED in tree:
        return [(path, _joined(tree))]
    return [
        leaf for name, child in tree.items() for leaf in _leaves(child, f"{path}/{name}" if path else name)
    ]


def _joined(tree: dict[str, Any]) -> LazyTensor:
    shape = tuple(tree["shape"][str(index)] for index in range(len(tree["shape"])))
    chunks = [tree["chunks"][str(index)] for index in range(len(tree["chunks"]))]
    if sum(math.prod(chunk.shape) for chunk in chunks) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} with chunks missing")
    return LazyTensor(
        shape, chunks[0].dtype, lambda: np.concatenate([chunk.read() for chunk in chunks]).reshape(shape)
    )
