"""TensorFlow's numbers of data types, and NumPy's counterparts."""

from __future__ import annotations

from typing import Any

import numpy as np

from xtr_tf.errors import InputError

STRING = 7

# Numbers of `tensorflow.DataType` (types.proto), which never change.
_NUMPY: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.float64),
    3: np.dtype(np.int32),
    4: np.dtype(np.uint8),
    5: np.dtype(np.int16),
    6: np.dtype(np.int8),
    STRING: np.dtype(object),
    9: np.dtype(np.int64),
    10: np.dtype(np.bool_),
    17: np.dtype(np.uint16),
    19: np.dtype(np.float16),
    22: np.dtype(np.uint32),
    23: np.dtype(np.uint64),
}
_NUMBERS = {dtype: number for number, dtype in _NUMPY.items()}


def to_numpy(number: int) -> np.dtype[Any]:
    """Returns NumPy's dtype for a `tensorflow.DataType`; strings are objects.

    Args:
        number: Number of the type.

    Returns:
        The dtype.

    Raises:
        InputError: The type is neither a number nor a string.
    """
    if number not in _NUMPY:
        raise InputError(f"A model's inputs and outputs must be numbers or strings. Received: type {number}.")
    return _NUMPY[number]


def to_number(dtype: np.dtype[Any]) -> int:
    """Returns the `tensorflow.DataType` of a NumPy dtype."""
    return _NUMBERS[dtype]


def name(dtype: np.dtype[Any]) -> str:
    """Returns a dtype's name as TensorFlow spells it."""
    return "string" if dtype.kind in "OSU" else dtype.name
