"""The interface of runners, for work that is divided into shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class ShardTask(Protocol):
    """Work to do for each of several shards.

    A task is pickled to reach other processes. It may run any number of times for a shard, also by several
    workers at the same time, and the result is always the same.
    """

    def load(self) -> Any:
        """Loads what all shards of a process share, such as a model.

        Returns:
            The second argument of `run`.
        """
        ...

    def run(self, shard: Any, loaded: Any) -> Mapping[str, int]:
        """Finishes a shard.

        Args:
            shard: The shard.
            loaded: The result of `load`.

        Returns:
            Counters by name.
        """
        ...


#: Runs a task for shards and returns when all are finished.
Runner = Callable[[Any, Sequence[Any]], None]


def run_locally(task: ShardTask, shards: Sequence[Any]) -> None:
    """Finishes the shards in order, in this process.

    Args:
        task: The task to run for each shard.
        shards: The shards.
    """
    run_with(task.load())(task, shards)


def run_with(loaded: Any) -> Runner:
    """Returns a runner that finishes the shards in order, with something that is already loaded.

    Args:
        loaded: Passed to the task in place of the result of `load`, such as a model of the user.

    Returns:
        The runner.
    """

    def run(task: ShardTask, shards: Sequence[Any]) -> None:
        for shard in shards:
            task.run(shard, loaded)

    return run
