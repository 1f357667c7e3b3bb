"""JSON to and from tensors, in TensorFlow Serving's row (`instances`) and column (`inputs`) formats."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from serving.server.status import RequestError, invalid_argument
from serving.server.tensor_protos import dtype_name
from serving.server.wire.json_schema import did_you_mean
from xtr_tf.runtime import Signature, TensorSpec

_BASE64 = "b64"
_BYTES_SUFFIX = "_bytes"
_MAX_RANK = 16
_KINDS = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number", type(None): "Null"}


def parse_body(body: bytes) -> dict[str, Any]:
    """Parses a request body, which must be a JSON object.

    Args:
        body: The bytes of the body.

    Returns:
        The object.

    Raises:
        RequestError: INVALID_ARGUMENT, with TensorFlow Serving's message.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        position = f" at offset: {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid_argument(f"JSON Parse error: Invalid value.{position}") from None
    if not isinstance(document, dict):
        raise invalid_argument(f"JSON Value: {_show(document)} Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {_show(document)} not formatted correctly."
            " 'signature_name' key must be a string value."
        )
    return document


def decode_inputs(document: Mapping[str, Any], signature: Signature) -> tuple[dict[str, np.ndarray], bool]:
    """Reads the tensors of a request.

    Args:
        document: The request.
        signature: The signature that it calls.

    Returns:
        The arrays by input name, and whether the request is in row format.

    Raises:
        RequestError: INVALID_ARGUMENT, with TensorFlow Serving's message.
    """
    if "instances" in document and "inputs" in document:
        raise invalid_argument(
            f"JSON Value: {_show(document)} Not formatted correctly expecting only"
            " one of 'inputs' or 'instances' keys to exist "
        )
    if "instances" in document:
        return _decode_rows(document["instances"], document, signature), True
    if "inputs" in document:
        return _decode_columns(document["inputs"], signature), False
    raise invalid_argument("Missing 'inputs' or 'instances' key")


def encode_outputs(outputs: Mapping[str, np.ndarray], row_format: bool, strict: bool = False) -> bytes:
    """Writes an answer in the format of its request. A single output has no name in the answer.

    Args:
        outputs: Arrays by name.
        row_format: Whether the request was in row format.
        strict: Whether to write `null` for numbers that are not finite. TensorFlow Serving writes `NaN` and
            `-Infinity`, which are not JSON.

    Returns:
        The answer as JSON.

    Raises:
        RequestError: INVALID_ARGUMENT, if the outputs have no rows or different numbers of them.
    """
    columns = {name: _to_json(name, array, strict) for name, array in outputs.items()}
    answer = next(iter(columns.values())) if len(columns) == 1 else columns
    if not row_format:
        return _dump({"outputs": answer})
    rows: int | None = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if rows is not None and len(array) != rows:
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {rows}"
            )
        rows = len(array)
    if len(columns) == 1:
        return _dump({"predictions": answer})
    return _dump(
        {"predictions": [{name: values[row] for name, values in columns.items()} for row in range(rows or 0)]}
    )


def _decode_rows(instances: Any, document: Any, signature: Signature) -> dict[str, np.ndarray]:
    if not isinstance(instances, list):
        raise invalid_argument(f"JSON Value: {_show(document)} Excepting 'instances' to be an list/array")
    if not instances:
        raise invalid_argument(f"JSON Value: {_show(document)} No values in 'instances' array")
    named = _is_named(instances[0])
    if not named and len(signature.inputs) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    columns: dict[str, list[Any]] = {name: [] for name in signature.inputs}
    for position, instance in enumerate(instances):
        if _is_named(instance) != named:
            got = "list" if named else "object"
            wanted = "object" if named else "value/list"
            raise invalid_argument(f"Expecting {wanted} but got {got} at item {position} of input list")
        values = instance if named else {next(iter(columns)): instance}
        if position == 0:
            # Inputs with a default may be left out, but by all rows.
            columns = {name: [] for name in columns if name in values or name not in signature.optional}
        if values.keys() != columns.keys():
            raise invalid_argument(
                f"Failed to process element: {position} of 'instances' list. JSON object: {_show(instance)}"
                f" keys must be equal to: {','.join(sorted(columns))}"
            )
        for name, value in values.items():
            columns[name].append(value)
    try:
        return {name: _to_array(values, signature.inputs[name]) for name, values in columns.items()}
    except RequestError as error:
        raise invalid_argument(f"Failed to process 'instances' list. Error: {error.message}") from None


def _decode_columns(inputs: Any, signature: Signature) -> dict[str, np.ndarray]:
    if not _is_named(inputs):
        if len(signature.inputs) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        inputs = {next(iter(signature.inputs)): inputs}
    for name in inputs.keys() - signature.inputs.keys():
        raise invalid_argument(
            f"Unknown input: {name:.100} in 'inputs' object{did_you_mean(name, signature.inputs)}"
            f" Signature {signature.name} takes {', '.join(signature.inputs)}."
        )
    arrays = {}
    for name, spec in signature.inputs.items():
        if name in inputs:
            arrays[name] = _to_array(inputs[name], spec)
        elif name not in signature.optional:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
    return arrays


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {_BASE64} and isinstance(value[_BASE64], str)


def _to_array(value: Any, spec: TensorSpec) -> np.ndarray:
    shape: list[int] = []
    level = value
    while isinstance(level, list):
        shape.append(len(level))
        if len(shape) > _MAX_RANK:
            raise invalid_argument(f"A tensor may have at most {_MAX_RANK} dimensions.")
        if not level:
            break
        level = level[0]
    flat: list[Any] = []
    _flatten(value, tuple(shape), 0, spec, flat)
    if spec.dtype.kind == "O":
        array = np.empty(len(flat), object)
        array[:] = flat
        return array.reshape(shape)
    return np.array(flat, spec.dtype).reshape(shape)


def _flatten(value: Any, shape: tuple[int, ...], level: int, spec: TensorSpec, flat: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {_show(value)} found at incorrect level: {level + 1}"
                f" in the JSON DOM. Expected at level: {len(shape)}"
            )
        flat.append(_element(value, spec))
        return
    if level >= len(shape):
        raise invalid_argument(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level}"
            f" expected size: {shape[level]}"
        )
    for item in value:
        _flatten(item, shape, level + 1, spec, flat)


def _element(value: Any, spec: TensorSpec) -> Any:
    kind = spec.dtype.kind
    if kind == "O":
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        if _is_base64(value):
            return _decode_base64(value[_BASE64])
        if isinstance(value, dict):
            raise invalid_argument(f"JSON Value: {_show(value)} not formatted correctly for base64 data")
    elif kind == "b":
        if isinstance(value, bool):
            return value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if kind == "f":
            return _decimal(value, spec)
        bounds = np.iinfo(spec.dtype)
        if isinstance(value, int) and bounds.min <= value <= bounds.max:
            return value
    name = "True" if value is True else "False" if value is False else _KINDS[type(value)]
    raise invalid_argument(
        f"JSON Value: {_show(value)} Type: {name} is not of expected type: {dtype_name(spec.dtype)}"
    )


def _decimal(value: int | float, spec: TensorSpec) -> float:
    bounds = np.finfo(spec.dtype)
    exact = abs(value) < 2 ** (bounds.nmant + 1) if isinstance(value, int) else True
    if not exact or (math.isfinite(value) and abs(value) > float(bounds.max)):
        raise invalid_argument(
            f"Cannot convert JSON value: {_show(value)} to {dtype_name(spec.dtype)}"
            " without loss of precision."
        )
    return float(value)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("Unable to base64 decode") from None


def _to_json(name: str, array: np.ndarray, strict: bool) -> Any:
    if strict and array.dtype.kind == "f" and not np.isfinite(array).all():
        finite = np.isfinite(array)
        values = np.array(_to_json(name, np.where(finite, array, array.dtype.type(0)), strict), object)
        values[~finite] = None
        return values.tolist()
    if array.dtype == np.float32:
        # Through text, for the shortest digits of a float32. As a float64, 0.2 would be 0.20000000298….
        return array.astype(str).astype(np.float64).tolist()
    if array.dtype.kind != "O":
        return array.tolist()
    if name.endswith(_BYTES_SUFFIX):
        return _map_nested(array.tolist(), lambda value: {_BASE64: base64.b64encode(value).decode()})
    return _map_nested(array.tolist(), lambda value: value.decode("utf-8", "replace"))


def _map_nested(value: Any, function: Any) -> Any:
    return [_map_nested(item, function) for item in value] if isinstance(value, list) else function(value)


def _dump(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _show(value: Any) -> str:
    return f"{json.dumps(value, ensure_ascii=False, default=str):.200}"
