"""The learning rate as a function of the step."""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.config.schema import TrainingConfig


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
