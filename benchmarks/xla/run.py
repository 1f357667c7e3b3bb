"""What a step of mxtr_base costs on one replica of a TPU, by XLA's own cost analysis of the whole program.

    make bench-xla

This needs no TPU: the step is turned into an XLA program at mxtr_base's real shapes and sizes, its operations
and bytes are counted, and nothing is timed. Bytes are counted before fusion and are more than any device
moves. The time that a TPU would need is an estimate from its data sheet. `input_ratio` comes from `make
bench-input`.

    make bench-xla ARGS="--compile 4"

compiles the step of the example for Vertex AI with 4 of its layers for its TPU, with the TPU's own compiler,
and prints how much of a chip's memory it takes. More layers take more minutes and gigabytes to compile.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from engine_process import REPOSITORY, print_machine
from environments import environment

_HERE = Path(__file__).parent
# The share of a chip's peak that a step is assumed to reach.
_UTILISATION = (0.3, 0.5)
_REPORTED = 8
_EXAMPLE_TPU = "v5e:2x2"  # of examples/configs/vertex_pipeline.yaml


class Slice(NamedTuple):
    """A TPU, by its data sheet: chips, and the bfloat16 operations per second of one."""

    name: str
    chips: int
    peak: float


SLICES = (Slice("v4-8", 4, 275e12), Slice("v5e-16", 16, 197e12))


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-input", action="store_true", help="do not run bench-input")
    parser.add_argument("--compile", type=int, metavar="LAYERS", help="only compile the example for its TPU")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for --compile")
    arguments = parser.parse_args()
    print_machine(cpu_time=True)
    if arguments.compile:
        _compile(arguments.compile, arguments.set)
        return
    found = {}
    for replicas in sorted({_REPORTED, *(own.chips for own in SLICES)}):
        found[replicas] = measured = _measure(replicas)
        print(
            f"{replicas:2} replicas  {measured['flops']:.3e} operations, {measured['bytes']:.3e} bytes "
            f"before fusion, {measured['blocks']} blocks per replica and step"
        )
    for own in SLICES:
        seconds = found[own.chips]["flops"] / own.peak
        slow, fast = (seconds / share * 1000 for share in _UTILISATION)
        print(
            f"ESTIMATE {own.name}: {seconds * 1000:.0f} ms per step at the peak of {own.peak / 1e12:.0f} "
            f"Tflop/s, {fast:.0f} to {slow:.0f} ms at {_UTILISATION[1]:.0%} to {_UTILISATION[0]:.0%} of it"
        )
    ratio = "" if arguments.skip_input else f" input_ratio={_input_ratio()}"
    reported = found[_REPORTED]
    print(
        f"RESULT bench-xla flops={reported['flops']:.3e} bytes={reported['bytes']:.3e} "
        f"blocks={reported['blocks']}{ratio}"
    )


def _measure(replicas: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        hlo = Path(folder, "step.txt")
        program = _answer(
            [sys.executable, "-W", "ignore", str(_HERE / "program.py"), str(replicas), str(hlo)]
        )
        costs = _answer([_python("xla"), str(_HERE / "cost.py"), str(hlo)])
    return {**program, **costs}


def _compile(layers: int, overrides: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hlo = str(Path(folder, "step.txt"))
        program = [sys.executable, "-W", "ignore", str(_HERE / "program.py"), "example", hlo, str(layers)]
        subprocess.run([*program, *overrides], check=True, stderr=subprocess.DEVNULL)
        memory = _answer([_python("tpu"), str(_HERE / "tpu_compiler.py"), _EXAMPLE_TPU, hlo])
    verdict = "fits" if memory["fits"] else "does not fit"
    print(
        f"COMPILED for {_EXAMPLE_TPU} with {layers} layers: {memory['hbm'] / 2**30:.2f} GiB of a chip's "
        f"memory, {verdict}"
    )


def _answer(command: list[str]) -> dict[str, Any]:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        sys.exit(finished.stderr[-2000:])
    return dict(json.loads(finished.stdout.splitlines()[-1]))


def _python(name: str) -> str:
    return str(environment(REPOSITORY / ".bench", name) or sys.exit(1))


def _input_ratio() -> str:
    command = [sys.executable, "-W", "ignore", str(REPOSITORY / "benchmarks" / "input" / "run.py")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (ratio,) = re.findall(r"input_ratio=([\d.]+)", output)
    return str(ratio)


if __name__ == "__main__":
    main()
