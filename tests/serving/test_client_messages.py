"""The client's own messages are, on the wire, TensorFlow Serving's."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from serving.client.messages import MESSAGES, fill_tensor, tensor_values
from serving.server import protos
from serving.server.tensor_protos import to_array, to_proto

REAL = {
    "Tensor": protos.tensor_pb2.TensorProto,
    "ModelSpec": protos.model_pb2.ModelSpec,
    "PredictRequest": protos.predict_pb2.PredictRequest,
    "PredictResponse": protos.predict_pb2.PredictResponse,
    "GetModelStatusRequest": protos.get_model_status_pb2.GetModelStatusRequest,
    "GetModelStatusResponse": protos.get_model_status_pb2.GetModelStatusResponse,
    "VersionStatus": protos.get_model_status_pb2.ModelVersionStatus,
}


@pytest.mark.parametrize("name", REAL)
def test_every_field_has_the_real_number_and_kind(name):
    ours, real = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto()
    MESSAGES[name].DESCRIPTOR.CopyToProto(ours)
    REAL[name].DESCRIPTOR.CopyToProto(real)
    fields = {field.name: field for field in real.field}
    enum, integer = 14, 5
    for field in ours.field:
        theirs = fields[field.name]
        assert field.number == theirs.number
        assert field.label == theirs.label
        assert field.type == (integer if theirs.type == enum else theirs.type)


VALUES = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(width=32, allow_nan=False),
    st.lists(st.text(max_size=20), max_size=5),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=1, max_size=5),
)


@given(st.dictionaries(st.text("abc_", min_size=1), VALUES, max_size=4), st.text(), st.integers(0, 2**62))
def test_requests_are_read_by_the_real_messages(inputs, name, version):
    request = MESSAGES["PredictRequest"]()
    request.model_spec.name = name
    request.model_spec.version.value = version
    request.model_spec.signature_name = "search"
    for key, value in inputs.items():
        fill_tensor(request.inputs[key], value)
    real = protos.predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert real.model_spec.name == name
    assert real.model_spec.version.value == version
    assert real.model_spec.signature_name == "search"
    assert set(real.inputs) == set(inputs)
    for key, value in inputs.items():
        expected = np.asarray(value, object)  # an array of strings would lose their trailing NULs
        array = to_array(real.inputs[key], 100)
        assert array.shape == expected.shape
        decoded = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
        assert decoded == expected.ravel().tolist()


@pytest.mark.parametrize("as_content", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "object"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_answers_of_the_real_messages_are_read(dtype, shape, as_content):
    array = (
        np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("float32" if dtype == "object" else dtype)
    )
    if dtype == "object":
        array = np.array([str(value).encode() for value in array.ravel()], object).reshape(shape)
    response = protos.predict_pb2.PredictResponse()
    response.outputs["x"].CopyFrom(to_proto(array, as_content))
    again = MESSAGES["PredictResponse"].FromString(response.SerializeToString())
    read_shape, values = tensor_values(again.outputs["x"])
    assert read_shape == shape
    assert list(values) == array.ravel().tolist()


def test_a_left_out_tail_is_put_back():
    for given_values, expected in ((["a"], [b"a", b"a", b"a"]), ([], [b"", b"", b""])):
        tensor = MESSAGES["Tensor"](dtype=7, string_val=[text.encode() for text in given_values])
        tensor.tensor_shape.dim.add(size=3)
        assert list(tensor_values(tensor)[1]) == expected


def test_strings_in_raw_content_are_read():
    tensor = MESSAGES["Tensor"](dtype=7, tensor_content=b"\x01\x02abc")
    tensor.tensor_shape.dim.add(size=2)
    assert tensor_values(tensor) == ((2,), [b"a", b"bc"])
    tensor.tensor_content += b"d"
    with pytest.raises(ValueError, match="not that of 2 strings"):
        tensor_values(tensor)


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="data type 8 is not known"):
        tensor_values(MESSAGES["Tensor"](dtype=8))
