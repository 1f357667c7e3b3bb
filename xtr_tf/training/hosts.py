"""The processes that train one model together: which of them writes, and what all of them know.

What one process learns by itself (a signal, a file that only it sees) must not decide what it does next, for
the others would wait for it in the next exchange forever. It is gathered first. Knows `tf.distribute`;
nothing of models, losses or data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.training.cluster import cluster_place
from xtr_tf.training.strategy import gather_over_replicas


class Hosts:
    """The processes of a strategy, this one among them.

    All of them must call the same methods in the same order: each call waits for the others.

    Args:
        strategy: What they train with.

    Attributes:
        is_chief: Whether this is the process that writes files and shows progress; one of them is.
        checkpoint_options: How it writes variables that may live on other hosts: through its own files.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._several = several and strategy.num_replicas_in_sync > 1
        # One process drives all hosts of a TPU, so that there it is the chief.
        self.is_chief = not several or cluster_place().is_chief
        drives_others = isinstance(strategy, tf.distribute.TPUStrategy)
        self.checkpoint_options = tf.train.CheckpointOptions(
            experimental_io_device="/job:localhost" if drives_others else None
        )
        self._gathered = tf.function(self._gather_tensor, autograph=False)

    def gather(self, value: int) -> list[int]:
        """Every device's value, known to all processes; a process's devices have the same."""
        if not self._several:
            return [value]
        return [int(each) for each in self._gathered(tf.constant(value, tf.int64)).numpy()]

    def any(self, flag: bool) -> bool:
        """Whether one of the processes says so."""
        return any(self.gather(int(flag)))

    def wait(self) -> None:
        """Returns when all processes have come here."""
        self.gather(0)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block that is refused in all processes if it is in one; there must be no exchange within it."""
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
        """Refuses to begin at different steps, as processes do that see different folders.

        Args:
            step: Where this process would begin.
            folder: Of the run, for the message.

        Raises:
            InputError: Another process would begin elsewhere.
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
