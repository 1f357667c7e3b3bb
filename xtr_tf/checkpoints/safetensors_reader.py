"""Reads `.safetensors` files, whole or sharded, one mapped tensor at a time.

The safetensors package checks a file's header against its size; the values are mapped by us, because
the package copies each tensor out of a map of the whole file.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

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
        InputError: The file is truncated or is no safetensors file.
    """
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"A safetensors file is missing, truncated or damaged ({error}); fetch it again. "
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
