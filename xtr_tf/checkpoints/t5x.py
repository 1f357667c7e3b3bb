"""Reads the checkpoints of T5X, the JAX code base of T5.

A checkpoint is a folder with a zarr array for each tensor that was partitioned over devices, and a
MessagePack file, `checkpoint`, with the others.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor, mapped_array, numpy_dtype
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


_DEEPEST = 64
_ARRAY_EXTENSIONS = (1, 3)
_CHUNKED = "__msgpack_chunked_array__"
_SINGLES: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_SIZES = {1: ">B", 2: ">H", 4: ">I"}
# First byte: kind, and how many bytes its length takes.
_SIZED = {
    0xC4: ("bytes", 1),
    0xC5: ("bytes", 2),
    0xC6: ("bytes", 4),
    0xC7: ("extension", 1),
    0xC8: ("extension", 2),
    0xC9: ("extension", 4),
    0xD9: ("text", 1),
    0xDA: ("text", 2),
    0xDB: ("text", 4),
    0xDC: ("list", 2),
    0xDD: ("list", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}


def read_msgpack_arrays(path: Path) -> dict[str, LazyTensor]:
    """Lists every array of a file under its `/`-joined path.

    Raises:
        InputError: The file is truncated or is no MessagePack.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            tree = _Decoder(path, buffer).value(0)
        return dict(_leaves(tree, ""))
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        raise InputError(
            f"A MessagePack file is truncated or damaged; fetch it again. Received: {str(path)!r} ({error})."
        ) from error


class _Decoder:
    """Walks through one buffer; arrays become `LazyTensor`s that know their place in the file."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self._path = path
        self._buffer = buffer
        self._position = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        first = self._number(">B")
        if first <= 0x7F:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in _SINGLES:
            return _SINGLES[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        kind, size = self._kind_and_size(first)
        if kind == "map":
            return {self._text(): self.value(depth + 1) for _ in range(size)}
        if kind == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if kind == "extension":
            return self._extension(size, depth)
        start = self._skip(size)
        return self._buffer[start : self._position].decode() if kind == "text" else (start, size)

    def _kind_and_size(self, first: int) -> tuple[str, int]:
        if first <= 0x8F:
            return "map", first & 0x0F
        if first <= 0x9F:
            return "list", first & 0x0F
        if first <= 0xBF:
            return "text", first & 0x1F
        if 0xD4 <= first <= 0xD8:
            return "extension", 1 << (first - 0xD4)
        kind, width = _SIZED[first]
        return kind, self._number(_SIZES[width])

    def _extension(self, size: int, depth: int) -> LazyTensor | None:
        kind = self._number(">b")
        end = self._position + size
        array = None
        if kind in _ARRAY_EXTENSIONS:
            shape, dtype, (start, length) = self.value(depth + 1)
            array = _array(self._path, tuple(shape), dtype, start, length)
        self._skip(end - self._position)
        return array

    def _text(self) -> str:
        key = self.value(_DEEPEST)
        if not isinstance(key, str):
            raise TypeError("a map with a key that is no text")
        return key

    def _number(self, form: str) -> Any:
        start = self._skip(struct.calcsize(form))
        return struct.unpack_from(form, self._buffer, start)[0]

    def _skip(self, size: int) -> int:
        """Moves past `size` bytes and returns where they begin."""
        start, self._position = self._position, self._position + size
        if size < 0 or self._position > len(self._buffer):
            raise ValueError("the file ends too early")
        return start


def _array(path: Path, shape: tuple[int, ...], dtype: str, start: int, length: int) -> LazyTensor:
    if length != math.prod(shape) * numpy_dtype(dtype).itemsize:
        raise ValueError(f"an array of shape {shape} and type {dtype} in {length} bytes")
    return LazyTensor(shape, dtype, lambda: mapped_array(path, start, dtype, shape))


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
