"""Work that is divided into shards, as runners see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class ShardTask(Protocol):
    """What to do with each of several shards.

    A task is pickled to reach other processes, may be run for a shard any number of times, by
    several workers at once, and leaves the same result.
    """

    def load(self) -> Any:
        """What all shards of a process share, such as a model."""
        ...

    def run(self, shard: Any, loaded: Any) -> Mapping[str, int]:
        """Finishes a shard and returns what is to be counted."""
        ...


#: Runs a task for shards and returns when all are finished.
Runner = Callable[[Any, Sequence[Any]], None]


def run_locally(task: ShardTask, shards: Sequence[Any]) -> None:
    """Finishes the shards in order.

    Args:
        task: What to do with a shard.
        shards: The shards.
    """
    run_with(task.load())(task, shards)


def run_with(loaded: Any) -> Runner:
    """A runner that finishes the shards in order with what is loaded already, such as a user's model."""

    def run(task: ShardTask, shards: Sequence[Any]) -> None:
        for shard in shards:
            task.run(shard, loaded)

    return run
