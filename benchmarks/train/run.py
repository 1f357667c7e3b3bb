"""Updates per second and peak memory of our training step, compared with the same step in torch.

    make bench-train
    .venv/bin/python benchmarks/train/run.py --cpu-time    # one thread's CPU time, on a busy machine

The step encodes 32 queries and their 32 passages with dropout, computes f_XTR with k_train 128 over the
batch and its gradient, and updates the weights with Adafactor, for a tiny encoder (T5's vocabulary) and in
mT5-small's shape (mT5's vocabulary). Each engine has its own process. They take turns round by round, so
that other load on the machine affects both. Ratios are taken within a round, and their medians are
reported. The engines get ids, so reading and tokenizing are not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from workload import BATCH_SIZE, DOCUMENT_LENGTH, K_TRAIN, QUERY_LENGTH, SHAPES, Shape, write_batches

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from engine_process import REPOSITORY, Engine, in_turns, print_machine

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-4


class Training(Engine):
    """An engine that trains."""

    peak_mib = 0.0

    @property
    def own_mib(self) -> float:
        """Peak memory beyond that of the imported packages."""
        return self.peak_mib - self.hello["imported_mib"]

    def loss(self) -> float:
        """The first batch's loss before training, without dropout."""
        return self.ask(task="loss")["loss"]

    def seconds(self) -> list[float]:
        """Updates once by every batch and returns how long each took."""
        answer = self.ask(task="train", clock=self.clock)
        self.peak_mib = answer["peak_mib"]
        return answer["seconds"]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4, help="updates per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--cpu-time", action="store_true", help="one thread each, measured by its CPU time")
    arguments = parser.parse_args()

    folder = REPOSITORY / ".bench" / "train"
    folder.mkdir(parents=True, exist_ok=True)
    _print_setting(arguments.cpu_time)
    results = {}
    for name in arguments.shapes:
        results[name] = _compare(SHAPES[name], folder, arguments)
    print(f"load       {os.getloadavg()[0]:.1f} at the end")
    print("memory_ratio is the largest of the shapes' ratios of peak resident memory, whole processes")
    memory_ratio = max(memory for _, memory in results.values())
    ratios = " ".join(f"{name}_ratio={speed:.2f}" for name, (speed, _) in results.items())
    print(f"RESULT bench-train {ratios} memory_ratio={memory_ratio:.2f}")


def _print_setting(cpu_time: bool) -> None:
    print_machine(cpu_time)
    print(
        f"step       batch {BATCH_SIZE}, k_train {K_TRAIN}, queries of up to {QUERY_LENGTH} tokens, "
        f"passages of up to {DOCUMENT_LENGTH}, dropout {SHAPES['tiny'].config.dropout}, Adafactor, float32"
    )


def _compare(shape: Shape, folder: Path, arguments: argparse.Namespace) -> tuple[float, float]:
    """Ratios of updates per second and of peak memory, ours divided by torch's."""
    weights, batches = folder / f"{shape.name}.safetensors", folder / f"{shape.name}.npz"
    source = write_batches(shape, batches, arguments.batches)
    shape.write_weights(weights)
    print(f"{shape.name:10s} {source}; {arguments.batches} updates per round, {arguments.rounds} rounds")
    engines = _start_engines(shape, weights, batches, arguments.cpu_time)
    try:
        _check_agreement(engines)
        rounds = _measure(engines, arguments.rounds)
    finally:
        for engine in engines:
            engine.close()
        weights.unlink()
    rates = [tuple(len(seconds) / sum(seconds) for seconds in pair) for pair in rounds]
    ours, theirs = (statistics.median(values) for values in zip(*rates, strict=True))
    ratios = [a / b for a, b in rates]
    memory_ratio = engines[0].peak_mib / engines[1].peak_mib
    own, their_own = (engine.own_mib for engine in engines)
    print(
        f"           xtr-tf {ours:.3f}  torch {theirs:.3f} updates/s; "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    print(
        f"           xtr-tf {engines[0].peak_mib:,.0f}  torch {engines[1].peak_mib:,.0f} MiB at peak; "
        f"ratio {memory_ratio:.2f}; beyond the imported packages "
        f"{own:,.0f} and {their_own:,.0f}, ratio {own / their_own:.2f}"
    )
    return statistics.median(ratios), memory_ratio


def _start_engines(shape: Shape, weights: Path, batches: Path, cpu_time: bool) -> tuple[Training, Training]:
    config = shape.config
    sizes = {
        "vocab_size": config.vocabulary_size,
        "d_model": config.model_dim,
        "d_kv": config.head_dim,
        "d_ff": config.feed_forward_dim,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "dropout_rate": config.dropout,
        "k_train": K_TRAIN,
    }
    files = [str(weights), str(batches)]
    engines = (
        Training("xtr-tf", HERE / "tensorflow_engine.py", [shape.name, *files], cpu_time),
        Training("torch", HERE / "torch_engine.py", [json.dumps(sizes), *files], cpu_time),
    )
    for engine in engines:
        print(f"{engine.name:10s} {engine.hello['versions']}")
    return engines


def _check_agreement(engines: tuple[Training, Training]) -> None:
    """Checks that both engines compute the same loss."""
    losses = [engine.loss() for engine in engines]
    difference = abs(losses[0] - losses[1])
    print(f"agreement  loss before training {losses[0]:.4f}, difference {difference:.1e}")
    if difference > TOLERANCE:
        sys.exit(f"bench-train: the engines' losses differ by more than {TOLERANCE}: {losses}.")


def _measure(engines: tuple[Training, Training], rounds: int) -> list[tuple[list[float], ...]]:
    """Seconds of every update by round, one list per engine; the first round warms up."""
    measured = []
    for round_ in range(rounds + 1):
        seconds = in_turns(engines, round_, Training.seconds)
        if round_:
            measured.append(seconds)
    return measured


if __name__ == "__main__":
    main()
