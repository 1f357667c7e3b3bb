"""JSON in TensorFlow Serving's row and column formats."""

from __future__ import annotations

import json

import numpy as np
import pytest

from serving.server.status import Code, RequestError
from serving.server.wire.json_tensors import decode_inputs, encode_outputs, parse_body
from xtr_tf.runtime import Signature, TensorSpec


def signature(**dtypes: str) -> Signature:
    specs = {name: TensorSpec(name, np.dtype(dtype), None, f"{name}:0") for name, dtype in dtypes.items()}
    return Signature("s", specs, {})


def refused(document: object, given: Signature) -> str:
    with pytest.raises(RequestError) as caught:
        decode_inputs(parse_body(json.dumps(document).encode()), given)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


QUERY = signature(query="object")
TWO = signature(query="object", k="int32")


@pytest.mark.parametrize(
    ("document", "given", "expected", "row_format"),
    [
        ({"instances": ["a", "ü"]}, QUERY, {"query": [b"a", "ü".encode()]}, True),
        ({"instances": [{"b64": "/w=="}]}, QUERY, {"query": [b"\xff"]}, True),
        ({"instances": [{"query": "a"}]}, QUERY, {"query": [b"a"]}, True),
        (
            {"instances": [{"query": "a", "k": 1}, {"query": "b", "k": 2}]},
            TWO,
            {"query": [b"a", b"b"], "k": [1, 2]},
            True,
        ),
        ({"instances": [[1, 2], [3, 4]]}, signature(x="float32"), {"x": [[1, 2], [3, 4]]}, True),
        ({"inputs": ["a"]}, QUERY, {"query": [b"a"]}, False),
        ({"inputs": "a"}, QUERY, {"query": b"a"}, False),
        ({"inputs": {"b64": "/w=="}}, QUERY, {"query": b"\xff"}, False),
        ({"inputs": {"query": ["a"], "k": 5}}, TWO, {"query": [b"a"], "k": 5}, False),
        ({"inputs": [True, False]}, signature(x="bool"), {"x": [True, False]}, False),
        ({"inputs": []}, signature(x="int64"), {"x": []}, False),
        ({"inputs": [2**62]}, signature(x="int64"), {"x": [2**62]}, False),
    ],
)
def test_requests_are_read(document, given, expected, row_format):
    arrays, rows = decode_inputs(document, given)
    assert rows is row_format
    assert {name: array.tolist() for name, array in arrays.items()} == expected
    for name, array in arrays.items():
        assert array.dtype == given.inputs[name].dtype


def test_not_a_number_and_infinities_are_numbers():
    arrays, _ = decode_inputs(parse_body(b'{"inputs": [NaN, -Infinity]}'), signature(x="float32"))
    assert np.isnan(arrays["x"][0])
    assert arrays["x"][1] == -np.inf


@pytest.mark.parametrize(
    ("document", "given", "message"),
    [
        ({}, QUERY, "Missing 'inputs' or 'instances' key"),
        (
            {"inputs": [], "instances": []},
            QUERY,
            "expecting only one of 'inputs' or 'instances' keys to exist",
        ),
        ({"instances": "a"}, QUERY, "Excepting 'instances' to be an list/array"),
        ({"instances": []}, QUERY, "No values in 'instances' array"),
        ({"instances": ["a"]}, TWO, "instances is a plain list, but expecting list of objects"),
        (
            {"instances": [{"query": "a"}, "b"]},
            QUERY,
            "Expecting object but got list at item 1 of input list",
        ),
        ({"instances": ["b", {"query": "a"}]}, QUERY, "Expecting value/list but got object at item 1"),
        ({"instances": [{"query": "a"}]}, TWO, "keys must be equal to: k,query"),
        ({"instances": [1]}, QUERY, "JSON Value: 1 Type: Number is not of expected type: string"),
        ({"instances": [None]}, QUERY, "Type: Null is not of expected type: string"),
        ({"instances": [["a"], ["b", "c"]]}, QUERY, "Encountered list at unexpected size: 2 at level: 1"),
        ({"instances": [["a"], "b"]}, QUERY, "found at incorrect level: 2 in the JSON DOM"),
        ({"instances": ["b", ["a"]]}, QUERY, "Encountered list at unexpected level: 1 expected < 1"),
        ({"instances": [{"b64": "no base64!"}]}, QUERY, "Unable to base64 decode"),
        ({"inputs": ["a"]}, TWO, "inputs is a plain value/list, but expecting an object"),
        ({"inputs": {"query": ["a"]}}, TWO, "Missing named input: k in 'inputs' object."),
        (
            {"inputs": {"query": ["a"], "kk": 1}},
            TWO,
            "Unknown input: kk in 'inputs' object; did you mean `k`? Signature s takes query, k.",
        ),
        ({"inputs": {"query": ["a"], "other": 1}}, QUERY, "Unknown input: other in 'inputs' object."),
        (
            {"inputs": [1.5]},
            signature(x="int32"),
            "JSON Value: 1.5 Type: Number is not of expected type: int32",
        ),
        ({"inputs": [2**31]}, signature(x="int32"), "is not of expected type: int32"),
        ({"inputs": [True]}, signature(x="int32"), "Type: True is not of expected type: int32"),
        (
            {"inputs": [1e39]},
            signature(x="float32"),
            "Cannot convert JSON value: 1e+39 to float without loss",
        ),
        ({"inputs": [2**24 + 1]}, signature(x="float32"), "without loss of precision"),
        ({"inputs": [10**400]}, signature(x="float64"), "without loss of precision"),
        ({"signature_name": 100, "inputs": []}, QUERY, "'signature_name' key must be a string value."),
    ],
)
def test_bad_requests_get_tensorflow_servings_words(document, given, message):
    assert message in refused(document, given)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"nonsense", b"\xff\xfe\xfd", b"[" * 100_000, b'{"inputs": ' + b"[" * 5000]
)
def test_bodies_that_are_not_json_objects(body):
    with pytest.raises(RequestError) as caught:
        parse_body(body)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_deep_nesting_is_refused():
    nested: object = "a"
    for _ in range(200):
        nested = [nested]
    assert "at most 16 dimensions" in refused({"inputs": nested}, QUERY)


def test_answers_are_written():
    ids = np.array([[b"a", b"\xff"], [b"c", b"d"]], object)
    scores = np.array([[0.2, -np.inf], [1, 2]], np.float32)
    rows = encode_outputs({"ids": ids, "scores": scores}, row_format=True)
    assert (
        rows
        == (
            '{"predictions":[{"ids":["a","\ufffd"],"scores":[0.2,-Infinity]},{"ids":["c","d"],"scores":[1.0,2.0]}]}'
        ).encode()
    )
    columns = json.loads(encode_outputs({"ids": ids, "scores": scores}, row_format=False))
    assert columns["outputs"]["ids"] == [["a", "\ufffd"], ["c", "d"]]
    assert json.loads(encode_outputs({"scores": scores[1:]}, row_format=True)) == {"predictions": [[1, 2]]}
    assert json.loads(encode_outputs({"n": np.array(3)}, row_format=False)) == {"outputs": 3}


def test_strict_parsers_get_null_where_a_number_is_not_finite():
    scores = np.array([[0.2, -np.inf], [np.nan, 2]], np.float32)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for outputs, expected in (
        ({"ids": np.array([1, 2]), "scores": scores}, [[0.2, None], [None, 2.0]]),
        ({"ids": np.array([1, 2]), "scores": scores.astype(np.float16)[:, 1:]}, [[None], [2.0]]),
    ):
        written = encode_outputs(outputs, row_format=False, strict=True)
        assert json.loads(written, parse_constant=refuse)["outputs"]["scores"] == expected
    assert encode_outputs({"n": np.array(np.inf)}, False, strict=True) == b'{"outputs":null}'


def test_outputs_named_bytes_are_base64():
    image = np.array([b"\xff\x00"], object)
    assert json.loads(encode_outputs({"image_bytes": image}, True)) == {"predictions": [{"b64": "/wA="}]}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"a": np.zeros([2]), "b": np.zeros([3])},
            "Tensor name: b has inconsistent batch size: 3 expecting: 2",
        ),
        ({"a": np.array(1.0)}, "Tensor name: a has no shape information"),
    ],
)
def test_rows_need_a_common_first_dimension(outputs, message):
    with pytest.raises(RequestError, match=message):
        encode_outputs(outputs, row_format=True)
