"""Keras optimisers and learning-rate schedules, made from a run's settings.

Any `keras.optimizers.Optimizer` can train an encoder. Only `make_optimizer` chooses one. Gradients arrive
summed over replicas. Knows nothing about losses or how a gradient was computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from xtr_tf.config.training import TrainingConfig
from xtr_tf.training.gradients import Gradient, combine_duplicates

_serializable = keras.saving.register_keras_serializable(package="xtr_tf")


def make_optimizer(config: TrainingConfig, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """Makes the optimiser of a run and builds it for the variables.

    Args:
        config: Settings with the optimiser, its learning rate and schedule.
        variables: Variables of the encoder, created in the scope of the strategy that this is called in.

    Returns:
        The optimiser.

    Example:
        >>> weights = keras.Variable(ops.ones([3, 2]))
        >>> optimizer = make_optimizer(TrainingConfig(learning_rate=0.1, warmup_steps=0), [weights])
        >>> optimizer.apply([ops.ones([3, 2])])
        >>> bool(ops.all(weights < 1))
        True
    """
    rate = make_schedule(config)
    if config.optimizer == "adafactor":
        optimizer = Adafactor(rate)
    else:
        optimizer = keras.optimizers.AdamW(rate, weight_decay=config.weight_decay, epsilon=1e-8)
        vectors = [variable for variable in variables if len(variable.shape) < 2]
        optimizer.exclude_from_weight_decay(var_list=vectors)
    optimizer.build(list(variables))
    return optimizer


def make_schedule(config: TrainingConfig) -> keras.optimizers.schedules.LearningRateSchedule:
    """Makes the schedule of the learning rate: warm-up, then constant or falling, then perhaps a linear end.

    It is never a number. Keras would store a number in a variable, and a checkpoint would restore the old
    value when the setting has changed.

    Args:
        config: Settings with the learning rate and the schedule.

    Returns:
        The schedule, a function of the updates made so far.

    Example:
        >>> config = TrainingConfig(learning_rate=1e-3, warmup_steps=10, schedule="inverse_sqrt")
        >>> schedule = make_schedule(config)
        >>> [round(float(schedule(step)), 6) for step in (0, 9, 39)]
        [0.0001, 0.001, 0.0005]
    """
    schedule = _schedule_without_end(config)
    return LinearEnd(schedule, config.steps, config.decay_steps) if config.decay_steps else schedule


def _schedule_without_end(config: TrainingConfig) -> keras.optimizers.schedules.LearningRateSchedule:
    warmup_steps = max(config.warmup_steps, 1)
    if config.schedule == "inverse_sqrt":
        return InverseSquareRoot(config.learning_rate, warmup_steps)
    # A "decay" that rises from the rate of the first update to the full rate.
    return keras.optimizers.schedules.PolynomialDecay(
        config.learning_rate / warmup_steps, max(warmup_steps - 1, 1), end_learning_rate=config.learning_rate
    )


@_serializable
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """T5's schedule, which Keras lacks: a linear rise, then a decay with the square root of the step.

    The n-th update has the rate `learning_rate * min(n / warmup_steps, sqrt(warmup_steps / n))`.

    Args:
        learning_rate: The highest rate, reached at update `warmup_steps`.
        warmup_steps: Number of updates over which the rate rises, at least 1.
    """

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate, a float32 scalar, of the update after `step` earlier ones."""
        progress = (ops.cast(step, "float32") + 1.0) / self.warmup_steps
        return self.learning_rate * ops.minimum(progress, ops.rsqrt(progress))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps}


@_serializable
class LinearEnd(keras.optimizers.schedules.LearningRateSchedule):
    """Any schedule, followed by a linear decay towards 0 over the last updates.

    The length of a run is often unknown when it begins. A run with a constant rate can continue for as long
    as there is time, and then get its end from any checkpoint.

    Args:
        schedule: The rate without an end, a number or a schedule.
        steps: Number of updates of the run.
        decay_steps: Number of updates of the end. The last one has `1 / decay_steps` of the rate.
    """

    def __init__(
        self,
        schedule: float | keras.optimizers.schedules.LearningRateSchedule,
        steps: int,
        decay_steps: int,
    ) -> None:
        super().__init__()
        self.schedule = schedule
        self.steps = steps
        self.decay_steps = decay_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate, a float32 scalar, of the update after `step` earlier ones."""
        rate = self.schedule(step) if callable(self.schedule) else self.schedule
        left = (self.steps - ops.cast(step, "float32")) / self.decay_steps
        return rate * ops.clip(left, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"schedule": self.schedule, "steps": self.steps, "decay_steps": self.decay_steps}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LinearEnd:
        """Makes a schedule from the result of `get_config`."""
        return cls(**config | {"schedule": keras.saving.deserialize_keras_object(config["schedule"])})


@_serializable
class Adafactor(keras.optimizers.Optimizer):
    """[Adafactor](https://arxiv.org/abs/1804.04235) as T5X uses it to train T5.

    It has parameter scaling, update clipping and no momentum. It differs from `keras.optimizers.Adafactor`
    where training a T5 requires it:

    - Sparse gradients of an embedding stay sparse: only the rows of a batch are updated.
    - A factored matrix has one number per row and one per column, and no second moment of its own size
      (Keras needs another 512 MB for mT5-small's embedding).
    - Matrices with a side below 128 are not factored, as in T5X.
    - The learning rate is the schedule's, not limited to `1 / sqrt(step)`.

    Args:
        learning_rate: A number or a schedule.
        beta_2_decay: Exponent of the step in the decay of second moments.
        epsilon_1: Constant added to squared gradients.
        epsilon_2: Minimum of the root mean square of a weight that scales its update.
        clip_threshold: Maximum root mean square of an update before it is scaled.
        min_factored_dim: Minimum side length of a matrix that is factored.
        name: Name of the optimiser.
        **kwargs: Arguments of every Keras optimiser.

    Example:
        >>> weight = keras.Variable([[1.0, 2.0]])
        >>> optimizer = Adafactor(learning_rate=0.1)
        >>> optimizer.apply([tf.constant([[1.0, 0.0]])], [weight])
        >>> [round(value, 3) for value in weight.numpy()[0].tolist()]
        [0.842, 2.0]
    """

    takes_sparse_gradients = True

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        min_factored_dim: int = 128,
        name: str = "adafactor",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_2_decay = beta_2_decay
        self.epsilon_1 = epsilon_1
        self.epsilon_2 = epsilon_2
        self.clip_threshold = clip_threshold
        self.min_factored_dim = min_factored_dim

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the second moments: those of rows and columns, or of each entry."""
        if self.built:
            return
        super().build(variables)
        self._moments = []
        for variable in variables:
            shape = tuple(variable.shape)
            parts = {"squares": shape}
            if len(shape) == 2 and min(shape) >= self.min_factored_dim:
                parts = {"rows": shape[:1], "columns": shape[1:]}
            self._moments.append([self.add_variable(shape=part, name=name) for name, part in parts.items()])

    def update_step(self, gradient: Gradient, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Updates one variable and its moments.

        Args:
            gradient: Gradient of the variable's shape.
            variable: The variable, on one device.
            learning_rate: Learning rate of this update.
        """
        moments = self._moments[self._get_variable_index(variable)]
        decay = 1.0 - tf.pow(ops.cast(self.iterations, "float32") + 1.0, self.beta_2_decay)
        size = float(variable.shape.num_elements())
        root_mean_square = tf.sqrt(2 * tf.nn.l2_loss(variable) / size)
        rate = learning_rate * tf.maximum(root_mean_square, self.epsilon_2)
        if isinstance(gradient, tf.IndexedSlices) and len(moments) == 2:
            gradient = combine_duplicates(gradient)
            moved = self._precondition_rows(gradient, moments, decay, int(variable.shape[0]))
            variable.scatter_sub(tf.IndexedSlices(self._clip(moved, size) * rate, gradient.indices))
            return
        gradient = tf.convert_to_tensor(gradient)
        precondition = self._precondition_factored if len(moments) == 2 else self._precondition
        variable.assign_sub(self._clip(precondition(gradient, moments, decay), size) * rate)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {
            "beta_2_decay": self.beta_2_decay,
            "epsilon_1": self.epsilon_1,
            "epsilon_2": self.epsilon_2,
            "clip_threshold": self.clip_threshold,
            "min_factored_dim": self.min_factored_dim,
        }

    def _clip(self, moved: tf.Tensor, size: float) -> tf.Tensor:
        """Scales an update so that its root mean square, over `size` entries, is at most the threshold."""
        root_mean_square = tf.sqrt(2 * tf.nn.l2_loss(moved) / size)
        return moved / tf.maximum(1.0, root_mean_square / self.clip_threshold)

    def _precondition(
        self, gradient: tf.Tensor, moments: list[keras.Variable], decay: tf.Tensor
    ) -> tf.Tensor:
        squares = self._average(moments[0], tf.square(gradient) + self.epsilon_1, decay)
        return gradient * tf.math.rsqrt(squares)

    def _precondition_factored(
        self, gradient: tf.Tensor, moments: list[keras.Variable], decay: tf.Tensor
    ) -> tf.Tensor:
        squares = tf.square(gradient) + self.epsilon_1
        rows = self._average(moments[0], tf.reduce_mean(squares, axis=1), decay)
        columns = self._average(moments[1], tf.reduce_mean(squares, axis=0), decay)
        row_factors = tf.math.rsqrt(rows / tf.reduce_mean(rows))
        return gradient * row_factors[:, None] * tf.math.rsqrt(columns)

    def _precondition_rows(
        self, gradient: tf.IndexedSlices, moments: list[keras.Variable], decay: tf.Tensor, row_count: int
    ) -> tf.Tensor:
        """Does the same for a gradient with zeros in other rows. Only the moments, two vectors, are dense."""
        squares = tf.square(gradient.values)
        row_means = tf.scatter_nd(gradient.indices[:, None], tf.reduce_mean(squares, axis=1), [row_count])
        rows = self._average(moments[0], row_means + self.epsilon_1, decay)
        column_means = tf.reduce_sum(squares, axis=0) / row_count + self.epsilon_1
        columns = self._average(moments[1], column_means, decay)
        row_factors = tf.math.rsqrt(tf.gather(rows, gradient.indices) / tf.reduce_mean(rows))
        return gradient.values * row_factors[:, None] * tf.math.rsqrt(columns)

    def _average(self, moment: keras.Variable, value: tf.Tensor, decay: tf.Tensor) -> tf.Tensor:
        """Moves a running mean towards `value` and returns it."""
        average = decay * moment + (1.0 - decay) * value
        self.assign(moment, average)
        return average
