"""The messages of TensorFlow Serving that a client needs, described by their wire format.

They have their own descriptor pool, so that a process can import TensorFlow's as well. Only field numbers and
types matter on the wire, and tests compare them with the originals.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Scalar: TypeAlias = str | bytes | bool | int | float
Value: TypeAlias = Scalar | Sequence[Scalar]

_PACKAGE = "xtr_tf.client"
_FLOAT, _INT32, _STRING, _BOOL = 1, 3, 7, 10

# Message: field, number, type. `*` marks repeated fields, and `map` those keyed by strings.
_SCHEMA = """
Int64Value: value 1 int64
Dimension: size 1 int64
TensorShape: *dim 2 Dimension
Tensor: dtype 1 int32, tensor_shape 2 TensorShape, tensor_content 4 bytes, *float_val 5 float, \
*double_val 6 double, *int_val 7 int32, *string_val 8 bytes, *int64_val 10 int64, *bool_val 11 bool
ModelSpec: name 1 string, version 2 Int64Value, version_label 4 string, signature_name 3 string
PredictRequest: model_spec 1 ModelSpec, inputs 2 map.Tensor, *output_filter 3 string
PredictResponse: outputs 1 map.Tensor, model_spec 2 ModelSpec
GetModelStatusRequest: model_spec 1 ModelSpec
VersionStatus: version 1 int64, state 2 int32
GetModelStatusResponse: *model_version_status 1 VersionStatus
"""
_KIND = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "int32": _KIND.TYPE_INT32,
    "int64": _KIND.TYPE_INT64,
    "float": _KIND.TYPE_FLOAT,
    "double": _KIND.TYPE_DOUBLE,
    "bool": _KIND.TYPE_BOOL,
    "string": _KIND.TYPE_STRING,
    "bytes": _KIND.TYPE_BYTES,
}
# For each data type: the field with its values, and the `struct` code of raw content.
_VALUES = {
    _FLOAT: ("float_val", "f"),
    2: ("double_val", "d"),
    _INT32: ("int_val", "i"),
    _STRING: ("string_val", ""),
    9: ("int64_val", "q"),
    _BOOL: ("bool_val", "?"),
}


def fill_tensor(tensor: Any, value: Value) -> None:
    """Writes a scalar or a list into a `TensorProto` as int32, float32, bool or string.

    Args:
        tensor: The `TensorProto` to fill.
        value: A string, number or boolean, or a list of them. The first element decides the data type.
    """
    if isinstance(value, (str, bytes, bool, int, float)):
        values: list[Any] = [value]
    else:
        values = list(value)
        tensor.tensor_shape.dim.add(size=len(values))
    first = values[0] if values else ""
    if isinstance(first, bool):
        tensor.dtype = _BOOL
        tensor.bool_val.extend(values)
    elif isinstance(first, int):
        tensor.dtype = _INT32
        tensor.int_val.extend(values)
    elif isinstance(first, float):
        tensor.dtype = _FLOAT
        tensor.float_val.extend(values)
    else:
        tensor.dtype = _STRING
        tensor.string_val.extend(
            text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in values
        )


def tensor_values(tensor: Any) -> tuple[tuple[int, ...], Sequence[Any]]:
    """Reads the shape and the values of a `TensorProto`.

    Args:
        tensor: The `TensorProto` to read.

    Returns:
        The shape, and the values in row-major order.

    Raises:
        ValueError: No retriever returns this data type.
    """
    shape = tuple(dimension.size for dimension in tensor.tensor_shape.dim)
    if tensor.dtype not in _VALUES:
        raise ValueError(f"data type {tensor.dtype} is not known")
    field, code = _VALUES[tensor.dtype]
    if tensor.tensor_content:
        if not code:
            return shape, split_strings(tensor.tensor_content, math.prod(shape))
        count = len(tensor.tensor_content) // struct.calcsize(f"<{code}")
        return shape, struct.unpack(f"<{count}{code}", tensor.tensor_content)
    values = getattr(tensor, field)
    missing = math.prod(shape) - len(values)
    if missing <= 0:
        return shape, values
    # A message may omit repetitions of the last value, or all values if they are zero or empty.
    last = values[-1] if values else (0 if code else b"")
    return shape, [*values, *([last] * missing)]


def split_strings(content: bytes, count: int) -> list[bytes]:
    """Reads strings from `tensor_content`: all lengths as varints, then the bytes of all strings.

    Args:
        content: The raw bytes of a string tensor.
        count: Number of strings.

    Returns:
        The strings as bytes.

    Raises:
        ValueError: The content does not hold exactly `count` strings.
    """
    lengths: list[int] = []
    position = 0
    for _ in range(count):
        length = shift = 0
        while True:
            if position >= len(content) or shift > 28:
                raise ValueError(f"the content is not that of {count} strings")
            byte = content[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise ValueError(f"the content is not that of {count} strings")
    ends = itertools.accumulate(lengths, initial=position)
    return [content[start:end] for start, end in itertools.pairwise(ends)]


def message_class(descriptor: Any) -> Any:
    """Returns the message class of a descriptor, with any version of protobuf."""
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(descriptor.file.pool).GetPrototype(descriptor)


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="xtr_tf_client.proto", package=_PACKAGE, syntax="proto3")
    for line in _SCHEMA.strip().splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            _add_field(message, *field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return {name: message_class(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names}


def _add_field(message: Any, name: str, number: str, kind: str) -> None:
    repeated = name.startswith("*") or kind.startswith("map.")
    field = message.field.add(
        name=name.lstrip("*"),
        number=int(number),
        label=_KIND.LABEL_REPEATED if repeated else _KIND.LABEL_OPTIONAL,
    )
    if kind.startswith("map."):
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", "1", "string")
        _add_field(entry, "value", "2", kind.removeprefix("map."))
        kind = f"{message.name}.{entry.name}"
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = _KIND.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"


#: Message classes by name.
MESSAGES: dict[str, Any] = _build()
