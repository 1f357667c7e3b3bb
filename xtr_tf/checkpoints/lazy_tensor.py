"""A tensor in a file, with a known shape and dtype, that is read only when it is needed.

Must not know any file format: every reader returns these, and all other code uses only these.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

_DTYPES = {
    **{
        name: np.dtype(name)
        for name in (
            *("float64", "float32", "float16", "bool"),
            *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
        )
    },
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


@dataclasses.dataclass(frozen=True)
class LazyTensor:
    """One tensor of a checkpoint.

    Attributes:
        shape: Its dimensions as stored.
        dtype: The name of its element type, such as `float32` or `bfloat16`.
        read: Returns the values, memory-mapped if the format allows it. Every call reads again, so that
            nothing is kept between calls.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


def numpy_dtype(name: str) -> np.dtype:
    """Returns the NumPy dtype of a name; KeyError if files may not contain it, such as objects."""
    return _DTYPES[name]


def mapped_array(path: Path, offset: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Maps little-endian values of a file, C-ordered, without reading them.

    Args:
        path: The file.
        offset: Where the first value starts, in bytes.
        dtype: Name of the element type.
        shape: Dimensions of the array.

    Returns:
        A read-only view of the file.
    """
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, numpy_dtype(dtype))
    return np.memmap(path, dtype=numpy_dtype(dtype), mode="r", offset=offset, shape=(count,)).reshape(shape)
