"""The gate of exports: does a fresh process, without Python TensorFlow, give the exporter's answers?

`python -m xtr_tf.retriever.gate DIR` is that process. It loads the model with the C library's loader,
which is TensorFlow Serving's, and only the op libraries that the model's ops ask for.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from xtr_tf.errors import InputError
from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.reference_cases import read_cases
from xtr_tf.runtime import SavedModelSession, StatusError

#: How far scores may be apart: rounding of float32 on one machine is below it.
TOLERANCE = 1e-5
_SECONDS_ALLOWED = 3600


@dataclasses.dataclass(frozen=True)
class GateReport:
    """What the gate found.

    Attributes:
        load_seconds: From the beginning of loading to a model that is ready.
        cases: Number of requests replayed, by signature.
        op_libraries: File names of the op libraries that the model needed.
        problems: What was wrong, a phrase each.
    """

    load_seconds: float
    cases: dict[str, int]
    op_libraries: list[str]
    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems


def replay(directory: Path, tolerance: float = TOLERANCE) -> GateReport:
    """Replays a model's reference cases in this process.

    Raises:
        InputError: The model does not load or has no reference cases.
    """
    cases = read_cases(directory)
    start = time.perf_counter()
    with SavedModelSession(directory) as session:
        load_seconds = time.perf_counter() - start
        problems = [
            f"`{name}` has no reference answer"
            for name in sorted(session.signatures.keys() - {case.signature for case in cases})
        ]
        counts: dict[str, int] = {}
        for case in cases:
            counts[case.signature] = counts.get(case.signature, 0) + 1
            try:
                found = differences(case, session.run(case.signature, case.inputs), tolerance)
            except (InputError, StatusError) as error:
                found = [str(error)]
            problems += [f"`{case.signature}`: {problem}" for problem in found]
        libraries = [path.name for path in session.op_libraries]
    if "tensorflow" in sys.modules:
        problems.append("the process imported Python TensorFlow, so that it proves nothing")
    return GateReport(load_seconds, counts, libraries, problems)


def verify_model(directory: str | os.PathLike[str], tolerance: float = TOLERANCE) -> GateReport:
    """Replays a model's reference cases in a fresh process.

    Args:
        directory: One version of a model.
        tolerance: How far scores may be from the exporter's; more where the processor is another.

    Raises:
        InputError: The model does not load, has no reference cases, or crashed the process.
    """
    command = [sys.executable, "-m", __name__, os.fspath(directory), "--tolerance", str(tolerance)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS_ALLOWED, check=False
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
            f"The process that checks the model died with exit code {process.returncode}; its last words: "
            f"{process.stderr.strip()[-300:]!r}. Received: {directory}."
        ) from None
    if "error" in answer:
        raise InputError(answer["error"])
    return GateReport(**answer)


def main(arguments: Sequence[str] | None = None) -> None:
    """Replays one model and prints the report as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    options = parser.parse_args(arguments)
    try:
        answer = dataclasses.asdict(replay(options.directory, options.tolerance))
    except InputError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
