"""What optimisers share: per-variable slots, and updates that run wherever the variables live.

Gradients arrive summed over replicas. Knows nothing of models, losses or schedules.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


class Optimizer(tf.Module, abc.ABC):
    """Updates variables from gradients.

    Args:
        variables: The variables, created under the strategy they will be updated in.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        super().__init__()
        self._variables = list(variables)
        self.slots = [self.create_slots(variable) for variable in self._variables]

    @abc.abstractmethod
    def create_slots(self, variable: tf.Variable) -> tuple[tf.Variable, ...]:
        """The state kept for a variable."""

    @abc.abstractmethod
    def update(
        self,
        variable: tf.Variable,
        gradient: Gradient,
        slots: tuple[tf.Variable, ...],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        """Updates one device's copy of a variable and of its slots.

        Args:
            variable: The variable.
            gradient: Its gradient, the same on all devices; rows of `IndexedSlices` are unique.
            slots: What `create_slots` gave.
            learning_rate: Of this update.
            step: Updates made so far, float32.
        """

    def apply(self, gradients: Sequence[Gradient], learning_rate: tf.Tensor, step: tf.Tensor) -> None:
        """Updates all variables; called in a replica context.

        Args:
            gradients: In the order of the variables, already summed over replicas.
            learning_rate: Of this update.
            step: Updates made so far.
        """
        context = tf.distribute.get_replica_context()
        arguments = (tuple(gradients), learning_rate, tf.cast(step, tf.float32))
        context.merge_call(self._apply_everywhere, args=arguments)

    def _apply_everywhere(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[Gradient],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        for variable, gradient, slots in zip(self._variables, gradients, self.slots, strict=True):
            strategy.extended.update(variable, self.update, args=(gradient, slots, learning_rate, step))


def combine_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums the rows of equal index, so that every index comes once."""
    indices, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """The norm of all gradients as one vector."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return tf.sqrt(tf.add_n([2 * tf.nn.l2_loss(value) for value in values]))


def scale(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """A gradient times a number."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
