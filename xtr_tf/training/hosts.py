"""The processes that train one model together: which of them writes, and how they agree.

A process must not act on information that only it has (a signal, a file that only it sees), because the
others would then wait forever for it in the next exchange. Such information is gathered first. Knows
`tf.distribute`, but nothing about models, losses or data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.training.cluster import cluster_place
from xtr_tf.training.strategy import gather_over_replicas


class Hosts:
    """The processes of a strategy, including this one.

    All of them must call the same methods in the same order: each call waits for the others.

    Args:
        strategy: Strategy of the training.

    Attributes:
        is_chief: Whether this process writes files and shows progress. Exactly one process does.
        checkpoint_options: Options to write variables that may be on other hosts through files of this host.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._several = several and strategy.num_replicas_in_sync > 1
        # One process drives all hosts of a TPU, so it is the chief.
        self.is_chief = not several or cluster_place().is_chief
        drives_others = isinstance(strategy, tf.distribute.TPUStrategy)
        self.checkpoint_options = tf.train.CheckpointOptions(
            experimental_io_device="/job:localhost" if drives_others else None
        )
        self._gathered = tf.function(self._gather_tensor, autograph=False)

    def gather(self, value: int) -> list[int]:
        """Gathers a value of all processes.

        Args:
            value: Value of this process.

        Returns:
            One value per device, the same list in all processes. Devices of one process have the same value.
        """
        if not self._several:
            return [value]
        return [int(each) for each in self._gathered(tf.constant(value, tf.int64)).numpy()]

    def any(self, flag: bool) -> bool:
        """Returns whether the flag is true in any process."""
        return any(self.gather(int(flag)))

    def wait(self) -> None:
        """Waits until all processes have called this method."""
        self.gather(0)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Runs a block that fails in all processes if it fails in one. It must not contain exchanges.

        Raises:
            InputError: The block raised an `InputError` in this or in another process.
        """
        refusal: InputError | None = None
        try:
            yield
        except InputError as error:
            refusal = error
        if self.any(refusal is not None):
            raise refusal or InputError(
                "Another worker cannot train, and none can without it; its own message says why. "
                f"Received: {cluster_place().name!r} of {cluster_place().workers} workers."
            )

    def require_same_step(self, step: int, folder: str) -> None:
        """Checks that all processes begin at the same step. They do not if they see different folders.

        Args:
            step: Step at which this process would begin.
            folder: Folder of the run, for the message.

        Raises:
            InputError: Another process would begin at another step.
        """
        steps = sorted(set(self.gather(step)))
        if len(steps) > 1:
            raise InputError(
                "The workers found different checkpoints; `training.output` must be a folder that all of "
                f"them share. Received: {folder!r} with checkpoints of steps {', '.join(map(str, steps))}."
            )

    def _gather_tensor(self, value: tf.Tensor) -> tf.Tensor:
        gathered = self._strategy.run(lambda each: gather_over_replicas(each[None]), args=(value,))
        return self._strategy.experimental_local_results(gathered)[0]
