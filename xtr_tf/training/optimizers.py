"""What optimisers share: per-variable slots, and updates that run wherever the variables live.

Gradients arrive summed over replicas. Knows nothing of models, losses or schedules.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

from xtr_tf.config.schema import TrainingConfig

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


_DECAY_EXPONENT = 0.8
_SQUARE_EPSILON = 1e-30
_SCALE_EPSILON = 1e-3
_CLIP_THRESHOLD = 1.0
_LEAST_FACTORED_SIZE = 128


class Adafactor(Optimizer):
    """Adafactor with parameter scaling, update clipping at 1 and no momentum.

    Slots are the running means of squared gradients over rows and over columns for a matrix of
    at least 128 x 128, of each entry for anything else.

    Args:
        variables: The variables to update.
    """

    def create_slots(self, variable: tf.Variable) -> tuple[tf.Variable, ...]:
        """Two vectors for a factored variable, one tensor of its shape otherwise."""
        if _is_factored(variable):
            return (
                tf.Variable(tf.zeros(variable.shape[:1]), trainable=False, name="rows"),
                tf.Variable(tf.zeros(variable.shape[1:]), trainable=False, name="columns"),
            )
        return (tf.Variable(tf.zeros(variable.shape), trainable=False, name="squares"),)

    def update(
        self,
        variable: tf.Variable,
        gradient: Gradient,
        slots: tuple[tf.Variable, ...],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        """See `Optimizer.update`."""
        decay = 1.0 - tf.pow(step + 1.0, -_DECAY_EXPONENT)
        size = float(variable.shape.num_elements())
        root_mean_square = tf.sqrt(2 * tf.nn.l2_loss(variable) / size)
        rate = learning_rate * tf.maximum(root_mean_square, _SCALE_EPSILON)
        if isinstance(gradient, tf.IndexedSlices):
            if len(slots) == 2:
                moved = _precondition_rows(gradient, slots, decay, int(variable.shape[0]))
                variable.scatter_sub(tf.IndexedSlices(_clip(moved, size) * rate, gradient.indices))
                return
            gradient = tf.convert_to_tensor(gradient)
        precondition = _precondition_factored if len(slots) == 2 else _precondition
        variable.assign_sub(_clip(precondition(gradient, slots, decay), size) * rate)


def _is_factored(variable: tf.Variable) -> bool:
    return variable.shape.rank == 2 and min(variable.shape) >= _LEAST_FACTORED_SIZE


def _clip(moved: tf.Tensor, size: float) -> tf.Tensor:
    """Scales an update so that its root mean square, over all `size` entries, is at most the threshold."""
    root_mean_square = tf.sqrt(2 * tf.nn.l2_loss(moved) / size)
    return moved / tf.maximum(1.0, root_mean_square / _CLIP_THRESHOLD)


def _precondition(gradient: tf.Tensor, slots: tuple[tf.Variable, ...], decay: tf.Tensor) -> tf.Tensor:
    squares = _average(slots[0], tf.square(gradient) + _SQUARE_EPSILON, decay)
    return gradient * tf.math.rsqrt(squares)


def _precondition_factored(
    gradient: tf.Tensor, slots: tuple[tf.Variable, ...], decay: tf.Tensor
) -> tf.Tensor:
    squares = tf.square(gradient) + _SQUARE_EPSILON
    rows = _average(slots[0], tf.reduce_mean(squares, axis=1), decay)
    columns = _average(slots[1], tf.reduce_mean(squares, axis=0), decay)
    row_factors = tf.math.rsqrt(rows / tf.reduce_mean(rows))
    return gradient * row_factors[:, None] * tf.math.rsqrt(columns)


def _precondition_rows(
    gradient: tf.IndexedSlices, slots: tuple[tf.Variable, ...], decay: tf.Tensor, row_count: int
) -> tf.Tensor:
    """The same for a gradient whose other rows are zero; only the vectors of slots are dense."""
    squares = tf.square(gradient.values)
    row_means = tf.scatter_nd(gradient.indices[:, None], tf.reduce_mean(squares, axis=1), [row_count])
    rows = _average(slots[0], row_means + _SQUARE_EPSILON, decay)
    column_means = tf.reduce_sum(squares, axis=0) / row_count + _SQUARE_EPSILON
    columns = _average(slots[1], column_means, decay)
    row_factors = tf.math.rsqrt(tf.gather(rows, gradient.indices) / tf.reduce_mean(rows))
    return gradient.values * row_factors[:, None] * tf.math.rsqrt(columns)


def _average(slot: tf.Variable, value: tf.Tensor, decay: tf.Tensor) -> tf.Tensor:
    """Moves a running mean towards `value` and returns it."""
    average = decay * slot + (1.0 - decay) * value
    slot.assign(average)
    return average


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


def learning_rate(config: TrainingConfig, step: tf.Tensor) -> tf.Tensor:
    """The rate of the update that follows `step` earlier ones: a linear rise, then constant or falling.

    Args:
        config: Rate, schedule and length of the warm-up.
        step: Updates made so far.

    Returns:
        A float32 scalar. Under `inverse_sqrt` it is `learning_rate * sqrt(warmup_steps / step)`
        after the warm-up, so that it has no jump.
    """
    number = tf.cast(step, tf.float32) + 1.0
    warmup = float(max(config.warmup_steps, 1))
    factor = tf.minimum(1.0, number / warmup)
    if config.schedule == "inverse_sqrt":
        factor *= tf.math.rsqrt(tf.maximum(number / warmup, 1.0))
    return config.learning_rate * factor
