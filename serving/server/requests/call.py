"""Turns a `PredictRequest` into checked arrays. Errors have TensorFlow Serving's messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from serving.server.status import Code, RequestError, invalid_argument
from serving.server.tensor_protos import TensorParsingError, dtype_name, to_array
from xtr_tf.errors import InputError
from xtr_tf.runtime import Signature, TensorSpec

DEFAULT_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class ModelCall:
    """A checked request.

    Attributes:
        signature: The signature to run.
        inputs: Arrays by input name.
        outputs: Names of the outputs to return.
        deadline: When the caller stops waiting, on the clock of `time.monotonic`. None if unknown.
    """

    signature: Signature
    inputs: dict[str, np.ndarray]
    outputs: tuple[str, ...]
    deadline: float | None = None


class Signatures(Protocol):
    """Answers requests by signature: a loaded model or a collection of them."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by name."""

    @property
    def signature_defs(self) -> Mapping[str, Any]:
        """The `SignatureDef` messages by name."""


def decode_request(request: Any, session: Signatures, max_elements: int) -> ModelCall:
    """Reads a `PredictRequest` for a loaded model.

    Args:
        request: The message.
        session: The model.
        max_elements: Largest number of elements of an input.

    Returns:
        The checked call.

    Raises:
        RequestError: The model has no such signature or output, or does not accept these inputs.
    """
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = session.signatures.get(name)
    if signature is None:
        raise RequestError(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
    _check_names(signature, request.inputs)
    arrays: dict[str, np.ndarray] = {}
    for alias, tensor in request.inputs.items():
        try:
            arrays[alias] = to_array(tensor, max_elements)
        except TensorParsingError:
            raise invalid_argument(f"tensor parsing error: {alias}") from None
    return ModelCall(
        signature, check_arrays(signature, arrays), _chosen_outputs(signature, request.output_filter)
    )


def check_arrays(signature: Signature, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checks the types and shapes of inputs.

    Unlike TensorFlow Serving, accepts integers of another width if the values fit.

    Args:
        signature: The signature to run.
        arrays: Arrays by input name.

    Returns:
        The arrays in the order of the signature.

    Raises:
        RequestError: INVALID_ARGUMENT, if a type or shape does not match.
    """
    checked: dict[str, np.ndarray] = {}
    for position, (alias, spec) in enumerate(signature.inputs.items()):
        array = arrays.get(alias)
        if array is None:
            continue
        if array.dtype != spec.dtype:
            array = _as_integers(array, spec)
            if array is None:
                raise invalid_argument(
                    f"Expects arg[{position}] to be {dtype_name(spec.dtype)}"
                    f" but {dtype_name(arrays[alias].dtype)} is provided (input `{alias}`)"
                )
        try:
            spec.check_shape(array)
        except InputError as error:
            raise invalid_argument(str(error)) from None
        checked[alias] = array
    return checked


def _as_integers(array: np.ndarray, spec: TensorSpec) -> np.ndarray | None:
    """Returns integers in the type of the model, or None if values do not fit or are not integers."""
    if array.dtype.kind not in "iu" or spec.dtype.kind not in "iu":
        return None
    converted = array.astype(spec.dtype)
    return converted if np.array_equal(converted, array) else None


def _check_names(signature: Signature, inputs: Mapping[str, Any]) -> None:
    if inputs.keys() == signature.inputs.keys():
        return
    sent, wanted, optional = sorted(inputs), sorted(signature.inputs), sorted(signature.optional)
    extra = sorted(set(sent) - set(wanted))
    missing = sorted(set(wanted) - set(sent))
    required = sorted(set(missing) - set(optional))
    if len(sent) > len(wanted) or (len(sent) < len(wanted) and not optional):
        raise invalid_argument(
            f"input size does not match signature: {len(sent)}!={len(wanted)}"
            f" len({_set(sent)}) != len({_set(wanted)})."
            f" Sent extra: {_set(extra)}. Missing but required: {_set(missing)}."
        )
    if required:
        raise invalid_argument(
            f"Signature input alias: {required[0]}(feed name: {signature.inputs[required[0]].tensor})"
            " not found in request and no default value provided. Inputs expected to be in the request"
            f" {_set(sent)}, or default input alias set: {','.join(optional)}"
        )
    if extra:
        used = ",".join(sorted(set(sent) & set(wanted)))
        raise invalid_argument(
            f"Inputs contains invalid name. Used request inputs: {used}, request input: {','.join(sent)}"
        )


def _chosen_outputs(signature: Signature, chosen: Any) -> tuple[str, ...]:
    if not chosen:
        return tuple(signature.outputs)
    seen: set[str] = set()
    for alias in chosen:
        if alias not in signature.outputs:
            raise invalid_argument(
                f"output tensor alias not found in signature: {alias}"
                f" Outputs expected to be in the set {_set(sorted(signature.outputs))}."
            )
        if alias in seen:
            raise invalid_argument(f"duplicate output tensor alias: {alias}")
        seen.add(alias)
    return tuple(chosen)


def _set(names: list[str]) -> str:
    return "{" + ",".join(names) + "}"
