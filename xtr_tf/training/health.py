"""Ends a broken-down run before a checkpoint is written: losses, gradients and weights must be finite.

The loss of a step belongs to the weights before the update, so a finite loss says nothing about the weights
after it. The weights are therefore checked before a checkpoint is written. Knows neither devices nor the
loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.training.run_folder import CheckpointStore, RunRecord


class NamedExamples(Protocol):
    """A stream of examples that have names for error reports."""

    def example_id(self, position: int) -> str:
        """Returns the name of the example at a position of the stream."""
        ...


class Health:
    """Checks whether a run can continue.

    Args:
        record: Folder of the run, where the examples of a step that broke down are recorded.
        store: Checkpoints from which a run continues.
        weights: Weights that are trained.
        examples: Training examples, if they have names.
        batch_size: Examples per step.
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
        # The norm uses squares, as layers and optimisers do. Weights whose squares overflow are lost.
        self._norm = tf.function(lambda: tf.linalg.global_norm(weights), autograph=False)

    def check_step(self, step: int, metrics: dict[str, float]) -> None:
        """Checks that the loss and the gradient of a step are finite.

        Args:
            step: Number of the step.
            metrics: Metrics of the step, with `loss` and `gradient_norm`.

        Raises:
            InputError: The loss or the gradient is not finite. The names of the examples are kept in a file.
        """
        for name, what in (("loss", "The loss"), ("gradient_norm", "The gradient")):
            if not np.isfinite(metrics[name]):
                self._end(step, f"{what} of step {step}", metrics[name])

    def check_weights(self, step: int) -> None:
        """Checks that the weights after a step are finite.

        Args:
            step: Number of the step.

        Raises:
            InputError: The norm of the weights is not finite.
        """
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
