"""Adam with decoupled weight decay, the alternative to Adafactor."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from xtr_tf.training.optimizer import Gradient, Optimizer

_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8


class AdamW(Optimizer):
    """[AdamW](https://arxiv.org/abs/1711.05101).

    Every row of an embedding keeps moving by its momentum, so sparse gradients are made dense.

    Args:
        variables: The variables to update.
        weight_decay: Share of a weight taken off per unit of learning rate; of matrices alone.
    """

    def __init__(self, variables: Sequence[tf.Variable], weight_decay: float) -> None:
        super().__init__(variables)
        self._weight_decay = weight_decay

    def create_slots(self, variable: tf.Variable) -> tuple[tf.Variable, ...]:
        """The running means of the gradient and of its square."""
        return (
            tf.Variable(tf.zeros(variable.shape), trainable=False, name="first_moment"),
            tf.Variable(tf.zeros(variable.shape), trainable=False, name="second_moment"),
        )

    def update(
        self,
        variable: tf.Variable,
        gradient: Gradient,
        slots: tuple[tf.Variable, ...],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        """See `Optimizer.update`."""
        gradient = tf.convert_to_tensor(gradient)
        first = slots[0] * _FIRST_DECAY + gradient * (1 - _FIRST_DECAY)
        second = slots[1] * _SECOND_DECAY + tf.square(gradient) * (1 - _SECOND_DECAY)
        slots[0].assign(first)
        slots[1].assign(second)
        number = step + 1.0
        correction = tf.sqrt(1 - tf.pow(_SECOND_DECAY, number)) / (1 - tf.pow(_FIRST_DECAY, number))
        moved = learning_rate * correction * first / (tf.sqrt(second) + _EPSILON)
        if self._weight_decay and variable.shape.rank > 1:
            moved += learning_rate * self._weight_decay * variable
        variable.assign_sub(moved)
