"""Adafactor as T5 and XTR are trained with: factored second moments, steps scaled to the weights.

[Adafactor](https://arxiv.org/abs/1804.04235) without momentum. Differs from Keras' in that
small matrices are not factored (as in T5X), and in that the gradient of an embedding may stay
sparse: a row without gradient is not moved by this rule, so touching only the others is exact
and spares passes over a vocabulary of 250,000 rows at every step.
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.training.optimizer import Gradient, Optimizer

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
