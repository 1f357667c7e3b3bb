"""Reads and writes `.safetensors` files, one mapped tensor or one block of rows at a time.

The safetensors package checks a file's header against its size. We map the values ourselves, because the
package copies each tensor out of a map of the whole file.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
from safetensors import SafetensorError, safe_open

from xtr_tf.checkpoints.lazy_tensor import LazyTensor, mapped_array
from xtr_tf.errors import InputError

_HEADER_LENGTH = struct.Struct("<Q")
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def read_safetensors(path: Path) -> dict[str, LazyTensor]:
    """Lists the tensors of one file.

    Example:
        >>> tensors = read_safetensors(Path("model.safetensors"))
        >>> tensors["shared.weight"].shape
        (250112, 512)

    Raises:
        InputError: The file is truncated or not a safetensors file.
    """
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"A safetensors file is missing, truncated or damaged ({error}); download it again. "
            f"Received: {str(path)!r}."
        ) from error
    with path.open("rb") as file:
        (length,) = _HEADER_LENGTH.unpack(file.read(_HEADER_LENGTH.size))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    first_value = _HEADER_LENGTH.size + length
    return {name: _lazy(path, first_value, entry) for name, entry in header.items()}


def _lazy(path: Path, first_value: int, entry: dict) -> LazyTensor:
    shape = tuple(entry["shape"])
    dtype = _DTYPES.get(entry["dtype"], entry["dtype"].lower())
    offset = first_value + entry["data_offsets"][0]
    return LazyTensor(shape, dtype, lambda: mapped_array(path, offset, dtype, shape))


Progress = Callable[[int, int], None]

_BLOCK_BYTES = 16 << 20
_ALIGNMENT = 8


class SafetensorsWriter:
    """Writes a float32 safetensors file, one tensor after another in the order of its header.

    Args:
        path: The file to write.
        shapes: Shape of every tensor, in the order in which they will be written.
        metadata: Strings for the header's `__metadata__`.
        progress: Called after every block with the bytes of values written so far and their total.

    Example:
        >>> with SafetensorsWriter(Path("weights.safetensors"), {"scale": (512,)}) as writer:
        ...     writer.write("scale", row_blocks(np.ones(512, np.float32)))
    """

    def __init__(
        self,
        path: Path,
        shapes: Mapping[str, tuple[int, ...]],
        metadata: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._pending = {name: 4 * math.prod(shape) for name, shape in shapes.items()}
        self._total = sum(self._pending.values())
        self._progress = progress
        self._file = path.open("wb")
        self._file.write(_header(shapes, dict(metadata or {})))

    def __enter__(self) -> SafetensorsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None and self._pending:
            raise RuntimeError(f"Tensors of the header were never written: {sorted(self._pending)}.")

    def write(self, name: str, blocks: Iterable[np.ndarray]) -> None:
        """Appends one tensor.

        Args:
            name: Its name, the next one in the header.
            blocks: Consecutive blocks of its C-ordered values.

        Raises:
            RuntimeError: It is not the next tensor, or the blocks do not have its size.
        """
        if name != next(iter(self._pending), None):
            raise RuntimeError(f"Tensors must be written in the header's order; {name!r} is not the next.")
        expected, written = self._pending.pop(name), 0
        before = self._total - expected - sum(self._pending.values())
        for block in blocks:
            written += self._file.write(np.ascontiguousarray(block, dtype="<f4").data.cast("B"))
            if self._progress is not None:
                self._progress(before + written, self._total)
        if written != expected:
            raise RuntimeError(f"{name!r} must be {expected} bytes long but {written} were given.")


def row_blocks(array: np.ndarray, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Yields an array in blocks of rows of a few megabytes.

    Args:
        array: Any array; a scalar or an empty one is one block.
        rows: Indices of the rows to yield, in that order; all of them by default.

    Yields:
        Arrays of consecutive rows.
    """
    if array.ndim == 0 or array.size == 0:
        yield array.reshape(-1)
        return
    count = len(array) if rows is None else len(rows)
    step = max(1, _BLOCK_BYTES // (4 * math.prod(array.shape[1:])))
    for start in range(0, count, step):
        yield array[start : start + step] if rows is None else array[rows[start : start + step]]


def _header(shapes: Mapping[str, tuple[int, ...]], metadata: dict[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, shape in shapes.items():
        end = offset + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(8, "little") + header
