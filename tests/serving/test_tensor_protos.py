"""Tensors on the wire: read and written as TensorFlow does."""

from __future__ import annotations

import numpy as np
import pytest

from serving.server.protos import tensor_pb2
from serving.server.tensor_protos import TensorParsingError, dtype_name, serialize, to_array, to_proto

NUMBERS = [
    "float32",
    "float64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "int64",
    "uint32",
    "uint64",
    "bool",
]
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 2)]


def example(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.random.default_rng(0).integers(0, 100, shape)
    if dtype != "object":
        return np.asarray(values, dtype)
    strings = np.empty(shape, object)
    for index in np.ndindex(shape):
        strings[index] = f"ß{values[index]}".encode()
    return strings


@pytest.mark.parametrize("as_content", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*NUMBERS, "float16", "object"])
def test_what_is_written_is_read(dtype, shape, as_content):
    array = example(dtype, shape)
    again = to_array(to_proto(array, as_content), 1000)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize("as_content", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 200), (130,), (0, 300)])
@pytest.mark.parametrize("dtype", [*NUMBERS, "float16", "object"])
def test_what_is_serialised_is_the_message(dtype, shape, as_content):
    array = example(dtype, shape)
    read = tensor_pb2.TensorProto.FromString(serialize(array, as_content))
    assert read == to_proto(array, as_content)
    transposed = array.T
    assert tensor_pb2.TensorProto.FromString(serialize(transposed)) == to_proto(transposed)


def test_tensorflow_agrees():
    import tensorflow as tf

    for dtype in [*NUMBERS, "float16", "object"]:
        for shape in SHAPES:
            array = example(dtype, shape)
            theirs = to_array(tf.make_tensor_proto(array), 1000)
            np.testing.assert_array_equal(theirs, array)
            for as_content in (False, True):
                np.testing.assert_array_equal(tf.make_ndarray(to_proto(array, as_content)), array)


STRING_CONTENTS = [
    (b"\x01\x02abc", [2], [b"a", b"bc"]),
    (b"\x00\x00", [2], [b"", b""]),
    (b"\xac\x02" + b"x" * 300, [1, 1], [[b"x" * 300]]),  # a length of two bytes
    (b"\x02\xff\x00", [], b"\xff\x00"),
]
NO_STRING_CONTENTS = [
    (b"\x01\x02ab", [2]),  # a byte too few
    (b"\x01\x02abcd", [2]),  # one too many
    (b"highest mountain", [1]),
    (b"\xff\xff\xff\xff\xff\xff\x01", [1]),  # a length of 42 bits
    (b"\x80", [1]),  # a length that does not end
]


def string_content(content: bytes, shape: list[int]):
    proto = tensor_pb2.TensorProto(dtype=7, tensor_content=content)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def test_strings_in_raw_content_are_read_as_tensorflow_reads_them():
    import tensorflow as tf

    for content, shape, expected in STRING_CONTENTS:
        proto = string_content(content, shape)
        assert to_array(proto, 1000).tolist() == expected
        theirs = tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy()
        assert (theirs.tolist() if shape else theirs) == expected
    for content, shape in NO_STRING_CONTENTS:
        proto = string_content(content, shape)
        with pytest.raises(TensorParsingError, match="the content is not that of"):
            to_array(proto, 1000)
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.io.parse_tensor(proto.SerializeToString(), tf.string)


def test_a_left_out_tail_repeats_the_last_value():
    proto = tensor_pb2.TensorProto(dtype=1, float_val=[1.0, 2.0])
    proto.tensor_shape.dim.add(size=4)
    assert to_array(proto, 10).tolist() == [1, 2, 2, 2]
    proto = tensor_pb2.TensorProto(dtype=7)
    proto.tensor_shape.dim.add(size=2)
    assert to_array(proto, 10).tolist() == [b"", b""]


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({"dtype": 1, "float_val": [1.0] * 3}, [2]),  # too many values
        ({"dtype": 1, "tensor_content": b"12345"}, [1]),  # not the shape's bytes
        ({"dtype": 1, "float_val": [1.0]}, [-1]),
        ({"dtype": 1, "float_val": [1.0]}, [1 << 40]),  # a claim of terabytes
        ({"dtype": 0}, [1]),
        ({"dtype": 8, "scomplex_val": [1.0, 2.0]}, [1]),
        ({"dtype": 20, "int_val": [1]}, [1]),  # resource
        ({"dtype": 999}, [1]),
    ],
)
def test_nonsense_is_refused(fields, sizes):
    proto = tensor_pb2.TensorProto(**fields)
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(TensorParsingError):
        to_array(proto, 1000)


def test_an_unknown_rank_is_refused():
    proto = tensor_pb2.TensorProto(dtype=1, float_val=[1.0])
    proto.tensor_shape.unknown_rank = True
    with pytest.raises(TensorParsingError):
        to_array(proto, 10)


def test_types_are_named_as_in_tensorflow():
    assert [dtype_name(np.dtype(name)) for name in ("float32", "float16", "object", "int64", "bool")] == [
        *("float", "half", "string", "int64", "bool")
    ]
