"""Parts of a retriever that several signatures share are traced once.

A signature calls the trace, which TensorFlow inlines when it first runs. The graph is smaller than with a
copy in every signature, so that an export, the gate and loading take less time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

T = TypeVar("T")


def traced_once(function: Callable[..., T], input_signature: Sequence[Any]) -> Callable[..., T]:
    """Returns a function with one trace for all graphs that call it.

    Op by op, as in the first calls of a live index, nothing is traced.

    Args:
        function: A function of tensors.
        input_signature: Specs of its positional arguments.

    Returns:
        A function of the same positional arguments, with the same results.
    """
    traced = tf.function(function, input_signature=input_signature, autograph=False)

    def call(*arguments: Any) -> T:
        result: T = function(*arguments) if tf.executing_eagerly() else traced(*arguments)
        return result

    return call
