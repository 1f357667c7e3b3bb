"""The paper's appendix on batch size, k_train and k': six short runs of `train_grid.sh`.

Knows the claims and their table; `run.py` encodes and searches.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), appendix on the relationship between
hyperparameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from claims import Claim

from xtr_tf.errors import InputError

#: Differences in MRR@10 up to this are noise and count as equal.
_SAME = 0.005

#: MRR@10 by k', by (batch size, k_train).
Grid = Mapping[tuple[int, int], Mapping[int, float]]


def grid_runs(folder: Path) -> dict[tuple[int, int], Path]:
    """Finds the encoders of the finished runs, by (batch size, k_train).

    Raises:
        InputError: No run is finished.
    """
    runs = {}
    for encoder in folder.glob("*-*/encoder"):
        batch, k_train = encoder.parent.name.split("-")
        runs[int(batch), int(k_train)] = encoder
    if not runs:
        raise InputError(
            "No run of the grid is finished; train them with benchmarks/paper_claims/train_grid.sh. "
            f"Received: {str(folder)!r}."
        )
    return dict(sorted(runs.items()))


def check_grid(grid: Grid) -> Iterator[Claim]:
    """Checks what the appendix says about the grid.

    Args:
        grid: At least two batch sizes and two values of k_train.
    """
    batches = sorted({batch for batch, _ in grid})
    k_trains = sorted({k_train for _, k_train in grid})
    k_primes = sorted(next(iter(grid.values())))
    few, many = k_primes[0], k_primes[-1]
    yield Claim(
        f"every variant prefers a larger k' ({few} to {many})",
        all(own[many] > own[few] for own in grid.values()),
        ", ".join(f"{key[0]}/{key[1]}: {own[few]:.3f} to {own[many]:.3f}" for key, own in grid.items()),
    )
    largest = batches[-1]
    small, large = (grid[largest, k_train] for k_train in (k_trains[0], k_trains[-1]))
    yield Claim(
        f"the smallest k_train loses least at a small k' (batch {largest}, share of its MRR@10 at k'={few})",
        small[few] / small[many] > large[few] / large[many],
        f"{small[few] / small[many]:.1%} against {large[few] / large[many]:.1%}",
    )
    yield Claim(
        f"the largest k_train is best at a large k' (batch {largest}, k'={many})",
        large[many] >= max(grid[largest, k_train][many] for k_train in k_trains) - _SAME,
        ", ".join(f"k_train {k_train}: {grid[largest, k_train][many]:.3f}" for k_train in k_trains),
    )
    yield Claim(
        f"a larger batch is mostly better ({batches[0]} to {largest}, k'={many})",
        2 * sum(grid[largest, k][many] > grid[batches[0], k][many] for k in k_trains) > len(k_trains),
        ", ".join(
            f"k_train {k}: {grid[batches[0], k][many]:.3f} to {grid[largest, k][many]:.3f}" for k in k_trains
        ),
    )


def grid_table(grid: Grid) -> list[str]:
    """The grid in Markdown, one row per run."""
    k_primes = sorted(next(iter(grid.values())))
    heads = [f"k'={k_prime}" for k_prime in k_primes]
    lines = [f"| batch | k_train | {' | '.join(heads)} |", f"|---:|---:|{'---:|' * len(heads)}"]
    for (batch, k_train), own in grid.items():
        lines.append(f"| {batch} | {k_train} | {' | '.join(f'{own[k]:.3f}' for k in k_primes)} |")
    return lines
