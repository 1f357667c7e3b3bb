"""One request and the answer that the exporter gave, kept beside the model as readable JSON.

Needs no TensorFlow: the process that replays the cases must not import it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.errors import InputError

# Beside the warm-up requests, in the directory that servers leave alone.
REFERENCE_FILE = Path("assets.extra") / "reference_answers.json"


@dataclasses.dataclass(frozen=True)
class ReferenceCase:
    """A request to one signature, and its answer.

    Attributes:
        signature: Which one.
        inputs: Arrays by name; strings are `bytes` objects.
        outputs: The same.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


def write_cases(directory: Path, cases: Iterable[ReferenceCase]) -> None:
    """Writes a model's cases."""
    file = directory / REFERENCE_FILE
    file.parent.mkdir(exist_ok=True)
    content = [
        {
            "signature": case.signature,
            "inputs": {name: _to_json(array) for name, array in case.inputs.items()},
            "outputs": {name: _to_json(array) for name, array in case.outputs.items()},
        }
        for case in cases
    ]
    file.write_text(json.dumps(content), encoding="utf-8")


def read_cases(directory: Path) -> list[ReferenceCase]:
    """Reads a model's cases."""
    file = directory / REFERENCE_FILE
    try:
        return [
            ReferenceCase(
                entry["signature"],
                {name: _from_json(array) for name, array in entry["inputs"].items()},
                {name: _from_json(array) for name, array in entry["outputs"].items()},
            )
            for entry in json.loads(file.read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            "The model has no readable reference answers to check it by; export it again. "
            f"Received: {str(file)!r} ({type(error).__name__})."
        ) from None


def _to_json(array: np.ndarray) -> dict[str, Any]:
    values = array.ravel().tolist()
    if array.dtype.kind == "O":
        # Bytes that are no UTF-8 become lone surrogates, which JSON can escape.
        values = [value.decode("utf-8", "surrogateescape") for value in values]
    dtype = "string" if array.dtype.kind == "O" else array.dtype.name
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def _from_json(fields: Mapping[str, Any]) -> np.ndarray:
    if fields["dtype"] != "string":
        return np.array(fields["values"], dtype=fields["dtype"]).reshape(fields["shape"])
    array = np.empty(len(fields["values"]), dtype=object)
    array[:] = [value.encode("utf-8", "surrogateescape") for value in fields["values"]]
    return array.reshape(fields["shape"])
