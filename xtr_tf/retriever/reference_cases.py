"""Requests with the answers of the exporter, stored next to the model as readable JSON.

Every answer has its tolerances for rounding, as measured at export. Needs no TensorFlow, because the process
that replays the cases must not import it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.errors import InputError

# Next to the warm-up requests, in the directory that servers do not read otherwise.
REFERENCE_FILE = Path("assets.extra") / "reference_answers.json"
#: Output of `sha256sum` for the files of the version, written last.
CHECKSUMS_FILE = "assets.extra/SHA256SUMS"
# The first form is a list of cases without tolerances. In the second, a parameter has one value for all
# queries.
FORM = 3
#: Tolerance for cases of the first form, which have none.
FIRST_SCORE_TOLERANCE = 1e-3
_FIRST_VECTOR_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class ReferenceCase:
    """A request to one signature, and its answer.

    Attributes:
        signature: Name of the signature.
        inputs: Arrays by name; strings are `bytes` objects.
        outputs: The answer, arrays by name.
        tolerances: How much the floats of an output may differ from these, by name. For `encodings`, relative
            to the length of a vector. Outputs without a tolerance must be equal.
        contested: For `explain`, bool `[queries, documents, length]`: where two tokens of a document are so
            close that rounding decides which of them matched.
        beyond: For rankings, float `[queries]`: the score of the best document that was not returned, -inf
            for none. It may take the place of the last document if their scores are close.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    tolerances: Mapping[str, float] = dataclasses.field(default_factory=dict)
    contested: np.ndarray | None = None
    beyond: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Reference:
    """The cases and defaults that a model is checked with.

    Attributes:
        cases: The cases, in the order in which they are replayed.
        defaults: Values of inputs that a request may leave out, by signature and name.
        form: Form in which it was written. An older form allows fewer checks.
    """

    cases: Sequence[ReferenceCase]
    defaults: Mapping[str, Mapping[str, np.ndarray]]
    form: int = FORM


def write_reference(directory: Path, reference: Reference) -> None:
    """Writes the reference of a model.

    Args:
        directory: Directory of the version.
        reference: Requests, answers and tolerances.
    """
    file = directory / REFERENCE_FILE
    file.parent.mkdir(exist_ok=True)
    content = {
        "form": FORM,
        "defaults": {name: _to_fields(values) for name, values in reference.defaults.items()},
        "cases": [
            {
                "signature": case.signature,
                "inputs": _to_fields(case.inputs),
                "outputs": _to_fields(case.outputs),
                "tolerances": dict(case.tolerances),
                **{
                    name: _to_json(array)
                    for name, array in (("contested", case.contested), ("beyond", case.beyond))
                    if array is not None
                },
            }
            for case in reference.cases
        ],
    }
    file.write_text(json.dumps(content), encoding="utf-8")


def read_reference(directory: Path) -> Reference:
    """Reads the reference of a model.

    Args:
        directory: Directory of the version.

    Returns:
        Requests, answers and tolerances.

    Raises:
        InputError: If there is nothing that can be read, or if it was written by a newer release.
    """
    file = directory / REFERENCE_FILE
    try:
        return _reference(json.loads(file.read_text(encoding="utf-8")))
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            "The model has no readable reference answers to check it by; export it again. "
            f"Received: {str(file)!r} ({type(error).__name__})."
        ) from None


def _reference(content: Any) -> Reference:
    if isinstance(content, list):
        return Reference([_first_case(entry) for entry in content], {}, form=1)
    if not 2 <= content["form"] <= FORM:
        raise InputError(
            "The model's reference answers have a format that this release cannot read; check the model "
            f"with the release that exported it. Received: form {content['form']}."
        )
    return Reference(
        [_case(entry) for entry in content["cases"]],
        {name: _from_fields(values) for name, values in content["defaults"].items()},
        content["form"],
    )


def _first_case(entry: Mapping[str, Any]) -> ReferenceCase:
    case = _case({**entry, "tolerances": {}})
    tolerances = {
        name: _FIRST_VECTOR_TOLERANCE if name == "encodings" else FIRST_SCORE_TOLERANCE
        for name, array in case.outputs.items()
        if array.dtype.kind == "f"
    }
    return dataclasses.replace(case, tolerances=tolerances)


def _case(entry: Mapping[str, Any]) -> ReferenceCase:
    return ReferenceCase(
        entry["signature"],
        _from_fields(entry["inputs"]),
        _from_fields(entry["outputs"]),
        {name: float(tolerance) for name, tolerance in entry["tolerances"].items()},
        *(_from_json(entry[name]) if name in entry else None for name in ("contested", "beyond")),
    )


def _to_fields(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: _to_json(array) for name, array in arrays.items()}


def _from_fields(fields: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: _from_json(array) for name, array in fields.items()}


def _to_json(array: np.ndarray) -> dict[str, Any]:
    values = array.ravel().tolist()
    if array.dtype.kind == "O":
        # Bytes that are not UTF-8 become lone surrogates, which JSON can escape.
        values = [value.decode("utf-8", "surrogateescape") for value in values]
    elif array.dtype == np.float32:
        # Only the digits that identify a float32, half as many as for a float64.
        values = [float(str(value)) for value in array.ravel()]
    dtype = "string" if array.dtype.kind == "O" else array.dtype.name
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def _from_json(fields: Mapping[str, Any]) -> np.ndarray:
    if fields["dtype"] != "string":
        return np.array(fields["values"], dtype=fields["dtype"]).reshape(fields["shape"])
    array = np.empty(len(fields["values"]), dtype=object)
    array[:] = [value.encode("utf-8", "surrogateescape") for value in fields["values"]]
    return array.reshape(fields["shape"])
