"""Dropout whose random numbers are a pure function of a seed.

A block that is recomputed in the backward pass must drop the same activations again, and
a resumed run must drop what the unbroken one would have: both need a seed that is given,
not a generator that moves on.
"""

from __future__ import annotations

import tensorflow as tf


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int) -> tf.Tensor:
    """Zeroes a share of `inputs` and scales up the rest; the identity without a seed.

    Args:
        inputs: Tensor of any shape.
        rate: Share to drop, in [0, 1).
        seed: `[2]` int32, or None outside training.
        site: Tells apart the places that share a seed.

    Returns:
        A tensor like `inputs`.
    """
    if seed is None or rate == 0:
        return inputs
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, tf.random.experimental.stateless_fold_in(seed, site)
    )
