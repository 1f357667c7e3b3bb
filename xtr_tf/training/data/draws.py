"""Which positive and which negatives of an example are trained on: a hash, the same in NumPy and TensorFlow.

A hash has no state: any host can draw for any visit of any example, in a graph or outside of one. Written
with operators that arrays and tensors share; products stay below 63 bits, so that nothing overflows.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import tensorflow as tf

Numbers = TypeVar("Numbers", np.ndarray, tf.Tensor)

_BITS = 0xFFFFFFFF


def draw(seed: int, examples: Numbers, visits: Numbers, places: Numbers) -> Numbers:
    """Random numbers below 2^32, each a function of its arguments.

    Args:
        seed: Of the run.
        examples: Numbers of examples, int64.
        visits: How often each has come before, int64 of the same shape.
        places: Which draw of the example, int64; the shapes broadcast.

    Returns:
        int64 of the arguments' common shape.
    """
    mixed = _mix(examples & _BITS ^ _mix_number(seed))
    mixed = _mix((mixed + visits) & _BITS)
    return _mix((mixed + places) & _BITS)


def _mix(values: Numbers) -> Numbers:
    """Spreads every bit of 32 over all of them."""
    for _ in range(2):
        values = ((values ^ values // 65536) * 0x45D9F3B) & _BITS
    return values ^ values // 65536


def _mix_number(value: int) -> int:
    return int(_mix(np.array(value & _BITS, np.int64)))
