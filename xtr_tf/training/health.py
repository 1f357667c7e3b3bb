"""Ends a run that broke down, before it writes that down: losses, gradients and weights must be finite.

A loss is that of the weights before an update, so that a finite one says nothing of the weights after it.
What a checkpoint would hold is checked itself. Knows neither devices nor the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.training.run_folder import CheckpointStore, RunRecord


class NamedExamples(Protocol):
    """A stream of examples whose names tell a reader where to look."""

    def example_id(self, position: int) -> str:
        """Names the example at a position of the stream."""
        ...


class Health:
    """Whether a run can continue.

    Args:
        record: Where the examples of a step that broke down are noted.
        store: The checkpoints from which a run continues.
        weights: What is trained.
        examples: What is trained on, if it has names.
        batch_size: Examples of a step.
        writes: Whether this process writes files.
    """

    def __init__(
        self,
        record: RunRecord,
        store: CheckpointStore,
        weights: Sequence[tf.Variable],
        examples: NamedExamples | None,
        batch_size: int,
        writes: bool,
    ) -> None:
        self._record = record
        self._store = store
        self._examples = examples
        self._batch_size = batch_size
        self._writes = writes
        # Of the squares, as layers and optimisers compute with them: weights whose squares overflow are lost.
        self._norm = tf.function(lambda: tf.linalg.global_norm(weights), autograph=False)

    def check_step(self, step: int, metrics: dict[str, float]) -> None:
        """Checks that the loss and the gradient of a step are finite.

        Args:
            step: Its number.
            metrics: With `loss` and `gradient_norm`.

        Raises:
            InputError: One of them is not; the batch is kept for inspection.
        """
        for name, what in (("loss", "The loss"), ("gradient_norm", "The gradient")):
            if not np.isfinite(metrics[name]):
                self._end(step, f"{what} of step {step}", metrics[name])

    def check_weights(self, step: int) -> None:
        """Raises InputError if the weights after a step are not finite."""
        norm = float(self._norm())
        if not np.isfinite(norm):
            self._end(step, f"The norm of the weights after step {step}", norm)

    def _end(self, step: int, what: str, value: float) -> NoReturn:
        first = (step - 1) * self._batch_size
        positions = range(first, first + self._batch_size)
        if self._writes:
            names = [self._examples.example_id(position) for position in positions] if self._examples else []
            self._record.save_failed_batch(step, names)
        latest = self._store.latest()
        place = f"continues after step {latest.step}" if latest else "begins again"
        raise InputError(
            f"{what} is not finite; its examples are in {self._record.failed_batch}. Lower "
            "`training.learning_rate`, or set `training.gradient_clip`, and run the same command: "
            f"it {place}. Received: {value}."
        )
