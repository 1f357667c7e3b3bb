"""`tensorflow.TensorProto` to and from NumPy arrays, by TensorFlow's own rules.

A message has its values in a typed field or as raw content, and may omit repetitions of the last value.
Messages that TensorFlow cannot parse are refused. So are values beyond the shape, which TensorFlow would
drop silently.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from serving.client.messages import split_strings
from serving.server.protos import tensor_pb2, types_pb2
from xtr_tf.errors import InputError
from xtr_tf.runtime import dtypes

_STRING = types_pb2.DT_STRING
_HALF = types_pb2.DT_HALF
_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT16: "int_val",
    types_pb2.DT_INT8: "int_val",
    types_pb2.DT_UINT8: "int_val",
    types_pb2.DT_UINT16: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val",
    types_pb2.DT_BOOL: "bool_val",
    _HALF: "half_val",
    _STRING: "string_val",
}


# Tags of the fields that `serialize` writes itself: packed floats, packed doubles and strings.
_WIRE_TAGS = {types_pb2.DT_FLOAT: b"\x2a", types_pb2.DT_DOUBLE: b"\x32", _STRING: b"\x42"}
_SHORT_VARINTS = [bytes([value]) for value in range(128)]


class TensorParsingError(ValueError):
    """The message does not describe a tensor."""


def to_array(proto: Any, max_elements: int) -> np.ndarray:
    """Reads a `TensorProto`.

    Args:
        proto: The message.
        max_elements: Largest number of elements. Without it, a small message could claim any size.

    Returns:
        The array. Strings are `bytes` objects.

    Raises:
        TensorParsingError: The message is inconsistent, too large or of an unsupported type.
    """
    shape = _shape_of(proto.tensor_shape)
    size = math.prod(shape)
    if size > max_elements:
        raise TensorParsingError(f"{size} elements are too many")
    field = _FIELDS.get(proto.dtype)
    if field is None:
        raise TensorParsingError(f"type {proto.dtype} is not supported")
    dtype = dtypes.to_numpy(proto.dtype)
    if proto.tensor_content:
        if proto.dtype == _STRING:
            return _strings(_split(proto.tensor_content, size)).reshape(shape)
        if len(proto.tensor_content) != size * dtype.itemsize:
            raise TensorParsingError(f"{len(proto.tensor_content)} bytes of content for shape {shape}")
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values = _values(getattr(proto, field), proto.dtype, dtype)
    return _fill(values, size).reshape(shape)


def to_proto(array: np.ndarray, as_content: bool = False) -> Any:
    """Returns an array as a new `TensorProto`.

    Args:
        array: Numbers or `bytes` objects.
        as_content: Whether to write numbers as raw bytes; see `fill_proto`.

    Returns:
        The message.
    """
    proto = tensor_pb2.TensorProto()
    fill_proto(proto, array, as_content)
    return proto


def fill_proto(proto: Any, array: np.ndarray, as_content: bool = False) -> None:
    """Writes an array into an empty `TensorProto`.

    Args:
        proto: The message.
        array: Numbers or `bytes` objects.
        as_content: Whether to write numbers as raw bytes into `tensor_content`, which is smaller and faster
            for large tensors, instead of into the typed field that most clients read.
    """
    number = dtypes.to_number(array.dtype)
    proto.dtype = number
    dimensions = proto.tensor_shape.dim
    for size in array.shape:
        dimensions.add(size=size)
    if as_content and number != _STRING:
        proto.tensor_content = array.tobytes()
        return
    flat = array.ravel()
    if number == _HALF:
        flat = flat.view(np.uint16)
    getattr(proto, _FIELDS[number]).extend(flat.tolist())


def serialize(array: np.ndarray, as_content: bool = False) -> bytes:
    """Returns an array as a serialised `TensorProto`. See `fill_proto`.

    Answers consist mostly of floats and strings, so these are written directly in the wire format. A message
    would copy every value twice, into Python objects and out of them.

    Args:
        array: Numbers or `bytes` objects.
        as_content: As for `fill_proto`.

    Returns:
        The bytes of the message.
    """
    number = dtypes.to_number(array.dtype)
    tag = _WIRE_TAGS.get(number)
    if tag is None or as_content:
        serialized: bytes = to_proto(array, as_content).SerializeToString()
        return serialized
    dimensions = b"".join(length_delimited(b"\x12", _dimension(size)) for size in array.shape)
    head = b"\x08" + varint(number) + (length_delimited(b"\x12", dimensions) if dimensions else b"")
    if number == _STRING:
        values: list[bytes] = array.ravel().tolist()
        return head + b"".join([length_delimited(tag, value) for value in values])
    return head + (length_delimited(tag, array.tobytes()) if array.size else b"")


def length_delimited(tag: bytes, content: bytes) -> bytes:
    """Returns a field (bytes, string, message or packed numbers) in protobuf's wire format.

    Args:
        tag: Encoded number and type of the field.
        content: Its content.
    """
    size = len(content)
    return tag + (_SHORT_VARINTS[size] if size < 128 else varint(size)) + content


def varint(value: int) -> bytes:
    """Returns a non-negative integer in protobuf's wire format."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


@functools.lru_cache(maxsize=256)
def _dimension(size: int) -> bytes:
    return b"\x08" + varint(size) if size else b""


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of a dtype as in TensorFlow's errors (`float`, `half`, `string`)."""
    try:
        name: str = types_pb2.DataType.Name(dtypes.to_number(dtype))
    except (KeyError, InputError):
        return str(dtype)
    return name.removeprefix("DT_").lower()


def _shape_of(shape: Any) -> tuple[int, ...]:
    sizes = tuple(dimension.size for dimension in shape.dim)
    if shape.unknown_rank or any(size < 0 for size in sizes):
        raise TensorParsingError("the shape is not fully known")
    return sizes


def _values(field: Any, number: int, dtype: np.dtype[Any]) -> np.ndarray:
    if number == _STRING:
        return _strings(list(field))
    if number == _HALF:
        return np.array(field, np.int32).astype(np.uint16).view(np.float16)
    return np.array(field, dtype if dtype.itemsize >= 4 else np.int64).astype(dtype)


def _strings(values: list[bytes]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _split(content: bytes, size: int) -> list[bytes]:
    try:
        return split_strings(content, size)
    except ValueError as error:
        raise TensorParsingError(str(error)) from None


def _fill(values: np.ndarray, size: int) -> np.ndarray:
    """Repeats the last value up to `size`. Without any value, fills with zeros or empty strings."""
    if len(values) == size:
        return values
    if len(values) > size:
        raise TensorParsingError(f"{len(values)} values for {size} elements")
    filled = np.empty(size, values.dtype)
    filled[: len(values)] = values
    default = b"" if values.dtype.kind == "O" else 0
    filled[len(values) :] = values[-1] if len(values) else default
    return filled
