"""The gate of exports: does a fresh process, without Python TensorFlow, return the answers of the exporter?

The files must be those of the exporter, by their checksums. Exact outputs are compared exactly. Outputs that
may round are compared within the rounding that the exporter measured and recorded. So on any processor, with
any number of threads, a mistake is refused and a difference in the last bit is not. Then the requests are
replayed two at a time, joined along the first dimension and split again, as servers do with batches.
`python -m xtr_tf.retriever.gate DIR` is that process. It loads the model with the loader of the C library,
which TensorFlow Serving uses, too, and only with the op libraries that the model needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.files import changed_files
from xtr_tf.processes import child_environment, die_with_parent
from xtr_tf.retriever.agreement import differences, without_padding
from xtr_tf.retriever.reference_cases import (
    CHECKSUMS_FILE,
    FIRST_SCORE_TOLERANCE,
    FORM,
    Reference,
    ReferenceCase,
    read_reference,
)
from xtr_tf.runtime import SavedModelSession, SessionOptions, StatusError, release_free_memory
from xtr_tf.runtime.c_library import c_library
from xtr_tf.runtime.memory import peak_resident_bytes, resident_bytes

#: Messages about models whose reference cases have an older form, by that form.
OLD_FORMS = {
    1: "The reference cases are of the old form, which does not say how far rounding may move an answer: "
    f"scores are compared within {FIRST_SCORE_TOLERANCE:g}, token ids, defaults and joined requests not at "
    "all; export the model again for a full check.",
    2: "The reference cases are of the old form, in which requests cannot be joined: each is replayed on its "
    "own only; export the model again for a full check.",
}
_SECONDS_ALLOWED = 3600


@dataclasses.dataclass(frozen=True)
class GateReport:
    """The result of the gate.

    Attributes:
        load_seconds: Time from the start of loading until the model is ready.
        cases: Number of replayed requests by signature.
        op_libraries: File names of the op libraries that the model needed.
        problems: What is wrong, one phrase each.
        memory: `peak_bytes`, the maximum growth of the process while the model was loaded, and
            `resident_bytes`, its growth after all requests.
        form: Form of the reference cases. An older form allows fewer checks (see `OLD_FORMS`).
    """

    load_seconds: float
    cases: dict[str, int]
    op_libraries: list[str]
    problems: list[str]
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    form: int = FORM

    @property
    def passed(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def replay(directory: Path, rewrite_graph: bool = False, fast: bool = False) -> GateReport:
    """Replays the reference cases of a model in this process.

    Args:
        directory: One version of a model.
        rewrite_graph: Whether TensorFlow first optimises the whole graph, as TensorFlow Serving does and our
            server does not. It takes twice as long, and the answers are the same up to rounding.
        fast: Whether to replay only one request per signature.

    Returns:
        What was compared, and what is wrong.

    Raises:
        InputError: If the model cannot be loaded or has no reference cases.
    """
    if changed := changed_since_export(directory):
        return GateReport(0.0, {}, [], [changed])
    reference = read_reference(directory)
    if fast:
        first = {case.signature: case for case in reversed(reference.cases)}
        reference = dataclasses.replace(reference, cases=list(first.values()))
    c_library()  # TensorFlow's own memory is needed once, for any number of models
    before = resident_bytes()
    start = time.perf_counter()
    options = SessionOptions(rewrite_graph=rewrite_graph)
    with SavedModelSession(directory, options=options) as session:
        load_seconds = time.perf_counter() - start
        peak = peak_resident_bytes() - before
        problems = list(problems_of(session, reference))
        libraries = [path.name for path in session.op_libraries]
        release_free_memory()
        memory = {"peak_bytes": peak, "resident_bytes": resident_bytes() - before}
    if "tensorflow" in sys.modules:
        problems.append("the process imported Python TensorFlow, so that it proves nothing")
    counts = dict(Counter(case.signature for case in reference.cases))
    return GateReport(load_seconds, counts, libraries, problems, memory, reference.form)


def changed_since_export(directory: Path) -> str:
    """Returns a message if some files of a version are not those of the exporter.

    The answers do not depend on every token of a large index, so the files are checked, too.

    Args:
        directory: One version of a model.

    Returns:
        The message, or "" if nothing changed or there are no checksums.
    """
    if not (directory / CHECKSUMS_FILE).is_file():
        return ""
    changed = changed_files(directory, CHECKSUMS_FILE)
    if not changed:
        return ""
    return (
        f"{len(changed)} of its files are missing or not those that were exported, such as {changed[0]}; "
        "copy the version again, or export it again"
    )


def problems_of(session: SavedModelSession, reference: Reference) -> Iterator[str]:
    """Replays the cases of a loaded model, and yields what is wrong with it.

    Args:
        session: The loaded model.
        reference: Requests with the answers of the exporter.

    Yields:
        One phrase per problem, as it is found; none if the model is right.
    """
    recorded = {case.signature for case in reference.cases}
    for name in sorted(session.signatures.keys() - recorded):
        yield f"`{name}` has no reference answer"
    for signature, defaults in reference.defaults.items():
        if signature in session.signatures:
            yield from _wrong_defaults(session, signature, defaults)
    for case in reference.cases:
        for problem in _asked(session, case.signature, case.inputs, functools.partial(differences, case)):
            yield f"`{case.signature}`: {problem}"
    for first, second in pairs_to_join(reference.cases) if reference.form == FORM else ():
        for problem in _joined(session, first, second):
            yield f"`{first.signature}`, two requests joined: {problem}"


def _asked(
    session: SavedModelSession,
    signature: str,
    inputs: Mapping[str, np.ndarray],
    check: Callable[[Mapping[str, np.ndarray]], list[str]],
) -> list[str]:
    try:
        return check(session.run(signature, inputs))
    except (InputError, StatusError) as error:
        return [str(error)]


def pairs_to_join(cases: Sequence[ReferenceCase]) -> Iterator[tuple[ReferenceCase, ReferenceCase]]:
    """Yields every case with the next one of its signature that it can be joined with, or with itself.

    TensorFlow Serving's batching joins the requests of several callers along the first dimension, for any
    signature, if all other dimensions are equal.

    Args:
        cases: The cases of all signatures.

    Yields:
        Pairs of cases.
    """
    for place, case in enumerate(cases):
        others = [*cases[place + 1 :], *cases[: place + 1]]
        yield case, next(other for other in others if _can_join(case, other))


def _can_join(case: ReferenceCase, other: ReferenceCase) -> bool:
    return case.signature == other.signature and all(
        array.shape[1:] == other.inputs[name].shape[1:] for name, array in case.inputs.items()
    )


def _joined(session: SavedModelSession, first: ReferenceCase, second: ReferenceCase) -> list[str]:
    """Runs two requests as one, splits the answer, and compares both halves."""
    inputs = {name: np.concatenate([array, second.inputs[name]]) for name, array in first.inputs.items()}
    rows = {len(array) for array in inputs.values()}
    if len(rows) > 1:
        return [f"the inputs have {sorted(rows)} rows"]
    [total] = rows
    split = len(next(iter(first.inputs.values())))

    def check(answer: Mapping[str, np.ndarray]) -> list[str]:
        wrong = [
            f"`{name}` has no row for each query" for name, array in answer.items() if len(array) != total
        ]
        if wrong:
            return wrong
        halves = ({n: a[:split] for n, a in answer.items()}, {n: a[split:] for n, a in answer.items()})
        return [
            problem
            for case, half in zip((first, second), halves, strict=True)
            for problem in differences(case, without_padding(case, half))
        ]

    return _asked(session, first.signature, inputs, check)


def _wrong_defaults(
    session: SavedModelSession, signature: str, expected: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """Yields defaults of the graph, or of the signature for TensorFlow Serving, that are not as recorded."""
    in_graph = session.defaults(signature)
    in_signature = session.signature_defs[signature].defaults
    for name in sorted(expected.keys() | in_graph.keys()):
        values = [found[name].ravel().tolist() if name in found else None for found in (expected, in_graph)]
        values.append(_values(in_signature[name]) if name in in_signature else None)
        if any(value != values[0] for value in values):
            yield (
                f"`{signature}`: the default of `{name}` is {values[1]} in the graph and {values[2]} in the "
                f"signature instead of {values[0]}"
            )


def _values(proto: Any) -> list[Any]:
    """Returns the values of a small `TensorProto`."""
    return [*proto.int_val, *(float(value) for value in proto.float_val), *proto.string_val]


def verify_model(directory: str | os.PathLike[str], fast: bool = False) -> GateReport:
    """Replays the reference cases of a model in a fresh process.

    Args:
        directory: One version of a model.
        fast: Whether to replay only one request per signature.

    Returns:
        What was compared, and what is wrong.

    Raises:
        InputError: If the model cannot be loaded, has no reference cases, took too long, or crashed the
            process.
    """
    command = [sys.executable, "-m", __name__, os.fspath(directory), *(["--fast"] if fast else [])]
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_SECONDS_ALLOWED,
            check=False,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"The model did not answer its reference requests within {_SECONDS_ALLOWED} s. "
            f"Received: {directory}."
        ) from None
    try:
        answer = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise InputError(
            f"The process that checks the model died with exit code {process.returncode}; its last output: "
            f"{process.stderr.strip()[-300:]!r}. Received: {directory}."
        ) from None
    if "error" in answer:
        raise InputError(answer["error"])
    return GateReport(**answer)


def main(arguments: Sequence[str] | None = None) -> None:
    """Replays one model and prints the report as a line of JSON.

    Args:
        arguments: Arguments of the command line; those of this process if None.
    """
    die_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rewrite-graph", action="store_true")
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args(arguments)
    try:
        answer = dataclasses.asdict(replay(options.directory, options.rewrite_graph, options.fast))
    except InputError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
