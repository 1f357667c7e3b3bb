"""How fast `xtr-tf encode` is on a corpus, part by part, now and at an earlier commit.

Every measurement is a fresh process, because starting is part of a job. It uses the shipped encoder and
documents of scifact, or of the embedded example if the measurement data are not available.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
ENCODER = REPOSITORY / "models" / "mxtr_tiny"
EXAMPLE = REPOSITORY / "examples" / "atlas" / "corpus.jsonl"
#: In the order of the work; `rest` is everything else.
PARTS = ("start", "reading", "loading", "tokenizing", "encoder", "writing", "rest")


def measure_corpus(
    folder: Path, texts: Sequence[str] | None, earlier: Path | None, rounds: int, clock: str
) -> float | None:
    """Prints seconds by part and tokens per second, for one thread and for two.

    Args:
        folder: The folder to write to.
        texts: Documents; the embedded example's if None.
        earlier: The code of an earlier commit, which takes turns with this one.
        rounds: Number of measurements of each.
        clock: `wall`, or `cpu` for one thread's processor time on a busy machine.

    Returns:
        Seconds of the earlier code divided by those of this one, including the start; the lower of the
        ratios for one and two threads. None without an earlier one. Tokens per second may not be compared
        between commits, because they may not store the same tokens.
    """
    corpus = EXAMPLE
    if texts is not None:
        corpus = folder / "corpus.jsonl"
        lines = (json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(texts))
        corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    jobs = {"now": (REPOSITORY, ""), "bfloat16": (REPOSITORY, "mixed_bfloat16")}
    if earlier:
        jobs["before"] = (earlier, "")
    print(f"{'corpus':20s} " + " ".join(f"{part:>10s}" for part in PARTS) + "   tokens/s")
    worst: list[float] = []
    for threads in (1,) if clock == "cpu" else (1, 2):
        found: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
        for round_ in range(rounds):
            for name in list(jobs)[:: 1 if round_ % 2 else -1]:
                found[name].append(_in_a_process(*jobs[name], corpus, folder / "vectors", threads, clock))
        rates = {
            name: statistics.median(own["tokens"] / own["seconds"] for own in measured)
            for name, measured in found.items()
        }
        for name, measured in found.items():
            medians = (statistics.median(own[part] for own in measured) for part in PARTS)
            print(
                f"{name}, {threads} thread(s)".ljust(20)
                + " "
                + " ".join(f"{seconds:10.2f}" for seconds in medians)
                + f"   {rates[name]:8.0f}"
            )
        seconds = {
            name: statistics.median(own["seconds"] for own in measured) for name, measured in found.items()
        }
        print(f"bfloat16 takes {seconds['bfloat16'] / seconds['now']:.2f} of the time")
        if earlier:
            worst.append(seconds["before"] / seconds["now"])
    return min(worst, default=None)


def _in_a_process(
    tree: Path, dtype: str, corpus: Path, out: Path, threads: int, clock: str
) -> dict[str, float]:
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-W", "ignore", __file__, str(corpus), str(out), str(threads), clock, dtype]
    variables = {**os.environ, "PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "3"}
    printed = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
    answer: dict[str, float] = json.loads(printed.splitlines()[-1])
    return answer


def _timed(owner: Any, name: str, seconds: dict[str, float], part: str, clock: Callable[[], float]) -> None:
    """Replaces a function by one that adds up how long it takes; a generator is exhausted."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def timed(*arguments: Any, **keywords: Any) -> Any:
        start = clock()
        result = original(*arguments, **keywords)
        if part == "tokenizing":
            result = list(result)
        seconds[part] = seconds.get(part, 0.0) + clock() - start
        return result

    setattr(owner, name, timed)


def _worker(corpus: str, out: str, threads: str, clock: str, dtype: str) -> None:
    """Encodes the corpus once, and prints seconds by part."""
    tick = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    os.sched_setaffinity(0, range(int(threads)))
    start = tick()
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.vectors import job, plan
    from xtr_tf.vectors.document_encoder import DocumentEncoder
    from xtr_tf.vectors.encode import encode_corpus
    from xtr_tf.vectors.passages import PassageSplitter

    seconds = {"start": tick() - start}
    for owner, name, part in (
        (plan.EncodingPlan, "write", "reading"),
        (job.EncodingJob, "load", "loading"),
        (PassageSplitter, "split", "tokenizing"),
        (DocumentEncoder, "_encode_passages", "encoder"),
        (job, "write_shard", "writing"),
    ):
        _timed(owner, name, seconds, part, tick)
    # An earlier commit may not have the setting.
    config = EncodingConfig(compute_dtype=dtype) if dtype else EncodingConfig()
    report = encode_corpus(corpus, ENCODER, out, config)
    total = tick() - start
    seconds["rest"] = total - sum(seconds.values())
    print(json.dumps({**seconds, "seconds": total, "tokens": report.counters["tokens_encoded"]}))


if __name__ == "__main__":
    _worker(*sys.argv[1:])
