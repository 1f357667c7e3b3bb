"""Chooses the positive and the negatives of an example by a hash, the same in NumPy and TensorFlow.

A hash has no state, so any host can draw for any visit of any example, inside or outside of a graph. The code
uses only operators that arrays and tensors share. Products stay below 63 bits, so that nothing overflows.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import tensorflow as tf

Numbers = TypeVar("Numbers", np.ndarray, tf.Tensor)

_BITS = 0xFFFFFFFF


def draw(seed: int, examples: Numbers, visits: Numbers, places: Numbers) -> Numbers:
    """Draws random numbers below 2^32, each a function of its arguments.

    Args:
        seed: Seed of the run.
        examples: Numbers of examples, int64.
        visits: How often each example was used before, int64 of the same shape.
        places: Number of the draw within the example, int64. The shapes broadcast.

    Returns:
        int64 with the common shape of the arguments.
    """
    mixed = _mix(examples & _BITS ^ _mix_number(seed))
    mixed = _mix((mixed + visits) & _BITS)
    return _mix((mixed + places) & _BITS)


def _mix(values: Numbers) -> Numbers:
    """Spreads each of 32 bits over all of them."""
    for _ in range(2):
        values = ((values ^ values // 65536) * 0x45D9F3B) & _BITS
    return values ^ values // 65536


def _mix_number(value: int) -> int:
    return int(_mix(np.array(value & _BITS, np.int64)))
