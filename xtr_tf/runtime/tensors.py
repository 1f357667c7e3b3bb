"""NumPy arrays to and from `TF_Tensor`s.

Values are copied both ways: a tensor never borrows memory that Python owns, nor Python a
tensor's. Whoever calls `to_tensor` must hand the result to `free_input`.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64

import numpy as np

from xtr_tf.runtime import dtypes
from xtr_tf.runtime.c_library import c_library

# sizeof(TF_TString), part of the C library's binary interface.
_STRING_BYTES = 24


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
    array = np.empty(shape, dtype)
    if dtype.kind != "O":
        ctypes.memmove(array.ctypes.data, data, array.nbytes)
        return array
    flat = array.reshape(-1)
    pointer, size = library.TF_StringGetDataPointer, library.TF_StringGetSize
    for position in range(flat.size):
        address = data + position * _STRING_BYTES
        flat[position] = ctypes.string_at(pointer(address), size(address))
    return array
