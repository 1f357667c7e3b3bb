"""Does the gate refuse what is wrong, and nothing else? `make gate-trial`.

Exports several small indexes under changing threads, load and instruction sets. The gate checks each when it
is exported, and again under other limits. Then damages a good export of each kind in every way of
`mutations.py`, and reports whether the answers reveal it, or only the checksums of the files. Ends with
`RESULT gate-trial exports=100 refused=0 mutations=... accepted=0 by_checksums_alone=...`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
CLI = "from xtr_tf.cli import main; main()"
NO_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
KINDS = {
    "exact": ("--kind", "exact"),
    "core": ("--kind", "core"),
    "scann": ("--kind", "scann"),
    "reordered": ("--kind", "scann", "--reordering"),
}
ENCODERS = ("shipped", "random")
_INDEXES = 3


class Limits(NamedTuple):
    """What a process may use.

    Attributes:
        name: For the log.
        variables: Environment variables that limit libraries and instruction sets.
        one_core: Whether it runs on one core.
        load: Processes that keep the machine busy at the same time.
        rewrite_graph: Whether a gate that checks under these limits lets Grappler rewrite the graph.
    """

    name: str
    variables: dict[str, str]
    one_core: bool = False
    load: int = 0
    rewrite_graph: bool = False


LIMITS = (
    Limits("as it is", {}),
    Limits("one core", {"OMP_NUM_THREADS": "1"}, one_core=True),
    Limits("no oneDNN", {"TF_ENABLE_ONEDNN_OPTS": "0"}, rewrite_graph=True),
    Limits("SSE4.1", {"TF_ENABLE_ONEDNN_OPTS": "1", "ONEDNN_MAX_CPU_ISA": "SSE41"}),
    Limits(
        "AVX, Prescott", {"ONEDNN_MAX_CPU_ISA": "AVX", "OPENBLAS_CORETYPE": "Prescott"}, rewrite_graph=True
    ),
    Limits(
        "AVX2, Haswell",
        {"ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": NO_AVX512},
    ),
    Limits("under load", {"OMP_NUM_THREADS": "2"}, load=4),
    Limits("Zen, one thread", {"OPENBLAS_CORETYPE": "Zen", "OMP_NUM_THREADS": "1"}, rewrite_graph=True),
    Limits("no oneDNN, one core", {"TF_ENABLE_ONEDNN_OPTS": "0"}, one_core=True),
    Limits("SkylakeX under load", {"OPENBLAS_CORETYPE": "SkylakeX", "ONEDNN_MAX_CPU_ISA": "AVX2"}, load=2),
)


def prepare(work: Path) -> list[str]:
    """Encodes the example corpus with two encoders and builds every kind of index; returns their names."""
    script = Path(__file__).with_name("random_encoder.py")
    for encoder in ENCODERS:
        folder = work / encoder
        if not (folder / "encoder").is_dir():
            shutil.copytree(REPOSITORY / "models" / "mxtr_tiny", folder / "encoder")
            if encoder == "random":
                _run([str(script), str(folder / "encoder")])
        corpus = str(REPOSITORY / "examples" / "atlas" / "corpus.jsonl")
        if not (folder / "vectors").is_dir():
            model = str(folder / "encoder")
            _run(["-c", CLI, "encode", corpus, "--model", model, "--out", str(folder / "vectors")])
        for kind, options in KINDS.items():
            out = work / f"{encoder}-{kind}"
            if not out.is_dir():
                vectors = str(folder / "vectors")
                _run(
                    ["-c", CLI, "index", "build", vectors, "--out", str(out), "--num-leaves", "60", *options]
                )
    return [f"{encoder}-{kind}" for encoder in ENCODERS for kind in KINDS]


def try_exports(work: Path, indexes: list[str], count: int) -> tuple[int, dict[str, Path]]:
    """Exports `count` times; returns how many were refused, and the last good export of each kind."""
    refused, made = 0, 0
    good: dict[str, Path] = {}
    share = -(-count // len(LIMITS))
    for number, limits in enumerate(LIMITS):
        # A few indexes, each several times, because tracing takes longest.
        some = [indexes[(number * _INDEXES + place) % len(indexes)] for place in range(_INDEXES)]
        mine = list(itertools.islice(itertools.cycle(some), min(share, count - number * share)))
        other = LIMITS[(number + 3) % len(LIMITS)]
        out = work / "exports" / str(number)
        for line in _lines([str(Path(__file__).with_name("worker.py")), str(work), str(out), *mine], limits):
            made += 1
            answer = json.loads(line)
            problem = answer.get("refused") or _verify(Path(answer["directory"]), other)
            refused += bool(problem)
            print(f"{made:4}  {answer['index']:18}  exported {limits.name}, checked {other.name}", end="")
            print(f": {problem}" if problem else "", flush=True)
            if not problem:
                _, _, kind = answer["index"].partition("-")
                if kind in good:
                    shutil.rmtree(good[kind])
                good[kind] = Path(answer["directory"])
    return refused + (count - made), good


def try_mutations(work: Path, good: dict[str, Path]) -> Counter[str]:
    """Damages a good export of each kind; counts what revealed it: answers, checksums or nothing."""
    import mutations

    from xtr_tf.retriever.gate import changed_since_export

    told: Counter[str] = Counter()
    for kind, directory in good.items():
        for mutation in mutations.mutations_of(kind, directory):
            copy = work / "mutated"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(directory, copy)
            mutation.apply(copy)
            problem = mutations.refusal(copy, mutation)
            changed = changed_since_export(copy)
            told["answers" if problem else "checksums" if changed else "nothing"] += 1
            print(f"{kind:9}  {mutation.name}: {problem or changed or 'ACCEPTED'}"[:200], flush=True)
    return told


def _verify(directory: Path, limits: Limits) -> str:
    """Returns what the gate says about an export under other limits; empty if all is well."""
    command = ["-m", "xtr_tf.retriever.gate", str(directory), *(["--rewrite-graph"] * limits.rewrite_graph)]
    report = json.loads(list(_lines(command, limits))[-1])
    return report.get("error", "") or "; ".join(report["problems"])


def _lines(arguments: list[str], limits: Limits) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        for _ in range(limits.load):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **limits.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=_one_core if limits.one_core else None,
        )
        assert process.stdout is not None
        yield from process.stdout
        process.wait()


def _one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, "-W", "ignore", *arguments], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Runs both halves and exits with 1 if the gate was wrong once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exports", type=int, default=100)
    parser.add_argument("--work", type=Path, default=REPOSITORY / ".bench" / "gate")
    options = parser.parse_args()
    shutil.rmtree(options.work / "exports", ignore_errors=True)
    refused, good = try_exports(options.work, prepare(options.work), options.exports)
    told = try_mutations(options.work, good)
    print(
        f"RESULT gate-trial exports={options.exports} refused={refused} mutations={told.total()} "
        f"accepted={told['nothing']} by_checksums_alone={told['checksums']}"
    )
    sys.exit(bool(refused or told["nothing"]))


if __name__ == "__main__":
    main()
