"""The inputs and outputs that a model declares, and checks of values against them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.runtime import dtypes


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One named input or output.

    Attributes:
        name: Its key in the signature.
        dtype: NumPy's dtype; `object` for strings.
        shape: One entry per dimension, `None` for any size; `None` as a whole for any rank.
        tensor: Name of the tensor in the graph, such as `serving_default_query:0`.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None
    tensor: str

    @classmethod
    def from_proto(cls, name: str, info: Any) -> TensorSpec:
        """Reads a `tensorflow.TensorInfo`.

        Args:
            name: Name of the input or output.
            info: The message.

        Returns:
            The specification.

        Raises:
            InputError: The tensor is sparse or composite.
        """
        if info.WhichOneof("encoding") != "name":
            raise InputError(f"Only dense tensors can be fed and fetched. Received: tensor {name!r}.")
        unknown_rank = info.tensor_shape.unknown_rank
        sizes = (dimension.size for dimension in info.tensor_shape.dim)
        shape = None if unknown_rank else tuple(size if size >= 0 else None for size in sizes)
        return cls(name, dtypes.to_numpy(info.dtype), shape, info.name)

    def check(self, value: Any) -> np.ndarray:
        """Converts `value` to an array of this dtype and shape.

        Python numbers and lists are converted if no value changes. An array must already have the dtype.
        Strings may be `str` (encoded as UTF-8) or `bytes`.

        Args:
            value: The value of the input.

        Returns:
            The array.

        Raises:
            InputError: The value has another type or shape.
        """
        array = self._strings(value) if self.dtype.kind == "O" else self._numbers(value)
        self.check_shape(array)
        return array

    def check_shape(self, array: np.ndarray) -> None:
        """Raises `InputError` unless an array has this shape."""
        if self.shape is not None and not self._fits(array.shape):
            raise InputError(
                f"Input `{self.name}` must have the shape {self.describe_shape()}. "
                f"Received: shape {list(array.shape)}."
            )

    def describe_shape(self) -> str:
        """Returns the shape as text, with `?` for any size."""
        if self.shape is None:
            return "of any rank"
        return "[" + ", ".join("?" if size is None else str(size) for size in self.shape) + "]"

    def describe_dtype(self) -> str:
        """Returns the dtype's name, `string` for strings."""
        return dtypes.name(self.dtype)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        assert self.shape is not None
        return len(shape) == len(self.shape) and all(
            wanted in (None, size) for wanted, size in zip(self.shape, shape, strict=True)
        )

    def _strings(self, value: Any) -> np.ndarray:
        array = np.asarray(value, dtype=object)
        encoded = np.empty(array.shape, dtype=object)
        for index, element in np.ndenumerate(array):
            if isinstance(element, str):
                encoded[index] = self._encode(element)
            elif isinstance(element, bytes):
                encoded[index] = bytes(element)
            else:
                raise self._wrong_dtype(type(element).__name__)
        return encoded

    def _encode(self, text: str) -> bytes:
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InputError(
                f"Input `{self.name}` must be text that UTF-8 can encode. Received: {text!r:.60}."
            ) from error

    def _numbers(self, value: Any) -> np.ndarray:
        if isinstance(value, (np.ndarray, np.generic)):
            if value.dtype != self.dtype:
                raise self._wrong_dtype(dtypes.name(value.dtype))
            # Not ascontiguousarray, which gives a scalar a dimension.
            return np.asarray(value, order="C")
        try:
            given = np.asarray(value)
            array = given.astype(self.dtype)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong_dtype(type(value).__name__) from None
        exact = np.can_cast(given.dtype, self.dtype, "same_kind") or given.size == 0
        in_range = self.dtype.kind not in "iu" or bool(np.all(array == given))
        if not (exact and in_range):
            raise self._wrong_dtype(f"{value!r:.60}")
        return array

    def _wrong_dtype(self, received: str) -> InputError:
        return InputError(
            f"Input `{self.name}` must be of type {self.describe_dtype()}. Received: {received}."
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """A named function of a model: its inputs and outputs by name.

    Attributes:
        name: Name of the signature.
        inputs: Specifications of the inputs, by name.
        outputs: Specifications of the outputs, by name.
        optional: Names of inputs that have a default.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    optional: frozenset[str] = frozenset()

    @classmethod
    def from_proto(cls, name: str, definition: Any) -> Signature:
        """Reads a `tensorflow.SignatureDef`.

        Args:
            name: Name of the signature.
            definition: The message.

        Returns:
            The signature.
        """
        return cls(
            name,
            {key: TensorSpec.from_proto(key, info) for key, info in sorted(definition.inputs.items())},
            {key: TensorSpec.from_proto(key, info) for key, info in sorted(definition.outputs.items())},
            frozenset(definition.defaults),
        )

    def check(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Converts the inputs to arrays, in the order of the signature.

        Args:
            inputs: Values by name.

        Returns:
            Arrays by name.

        Raises:
            InputError: An input is missing, unknown, or of another type or shape.
        """
        missing = sorted(self.inputs.keys() - inputs.keys() - self.optional)
        unknown = sorted(inputs.keys() - self.inputs.keys())
        if missing or unknown:
            raise InputError(
                f"Signature `{self.name}` takes the inputs {sorted(self.inputs)}. "
                f"Received: {sorted(inputs)} (missing {missing}, unknown {unknown})."
            )
        return {name: spec.check(inputs[name]) for name, spec in self.inputs.items() if name in inputs}


class Session(Protocol):
    """Something with a retriever's signatures: a `SavedModelSession`, or a `RetrieverSession`."""

    signatures: dict[str, Signature]

    def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs one signature.

        Args:
            signature: Name of the signature.
            inputs: Values by input name.

        Returns:
            Outputs by name.
        """
        ...
