"""Converts NumPy arrays to `TF_Tensor`s and back.

Values are copied in both directions, so that tensors and arrays never share memory. The caller of `to_tensor`
must pass the result to `free_input`.
"""

from __future__ import annotations

import ctypes
import math
import struct
from ctypes import c_int64

import numpy as np

from xtr_tf.runtime import dtypes
from xtr_tf.runtime.c_library import c_library

# sizeof(TF_TString), part of the C library's binary interface.
_STRING_BYTES = 24
_POINTER, _OFFSET = struct.Struct("<QQQ"), struct.Struct("<II")


def to_tensor(array: np.ndarray) -> int:
    """Returns a new `TF_Tensor` with the values of a C-contiguous array; strings are `bytes` objects."""
    library = c_library()
    is_string = array.dtype.kind == "O"
    length = array.size * (_STRING_BYTES if is_string else array.itemsize)
    dimensions = (c_int64 * max(array.ndim, 1))(*array.shape)
    tensor: int = library.TF_AllocateTensor(dtypes.to_number(array.dtype), dimensions, array.ndim, length)
    data = library.TF_TensorData(tensor)
    if not is_string:
        ctypes.memmove(data, array.ctypes.data, length)
        return tensor
    for offset, text in enumerate(array.flat):
        address = data + offset * _STRING_BYTES
        library.TF_StringInit(address)
        library.TF_StringCopy(address, text, len(text))
    return tensor


def free_input(tensor: int) -> None:
    """Frees a tensor made by `to_tensor`, with the strings in it.

    TensorFlow frees the strings of its own tensors, but those written into an allocated tensor
    belong to the writer.
    """
    library = c_library()
    if library.TF_TensorType(tensor) == dtypes.STRING:
        data = library.TF_TensorData(tensor)
        for offset in range(0, library.TF_TensorByteSize(tensor), _STRING_BYTES):
            library.TF_StringDealloc(data + offset)
    library.TF_DeleteTensor(tensor)


def free_output(tensor: int) -> None:
    """Frees a tensor that TensorFlow made."""
    c_library().TF_DeleteTensor(tensor)


def to_array(tensor: int) -> np.ndarray:
    """Returns a copy of a tensor's values; strings become `bytes` objects."""
    library = c_library()
    dtype = dtypes.to_numpy(library.TF_TensorType(tensor))
    shape = tuple(library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor)))
    data = library.TF_TensorData(tensor)
    count = math.prod(shape)
    if dtype.kind == "O":
        strings = np.empty(count, object)
        strings[:] = _read_strings(data, count)
        return strings.reshape(shape)
    if not count:
        return np.empty(shape, dtype)
    values = np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(data), dtype)
    return values.copy().reshape(shape)


def _read_strings(data: int, count: int) -> list[bytes]:
    """Reads `TF_TString`s in place, because a call to the C library for each would take far longer.

    The lowest two bits say where the bytes are: in the string itself (0, up to 22 bytes), at a pointer that
    it owns (1) or borrows (3), or at an offset from the string (2). The size is in the bits above.
    """
    raw = ctypes.string_at(data, count * _STRING_BYTES) if count else b""
    strings = []
    for start in range(0, len(raw), _STRING_BYTES):
        first = raw[start]
        kind = first & 3
        if kind == 0:
            strings.append(raw[start + 1 : start + 1 + (first >> 2)])
        elif kind == 2:
            size, offset = _OFFSET.unpack_from(raw, start)
            strings.append(ctypes.string_at(data + start + offset, size >> 2))
        else:
            size, second, third = _POINTER.unpack_from(raw, start)
            strings.append(ctypes.string_at(third if kind == 1 else second, size >> 2))
    return strings
