"""Reads the checkpoints of Mesh-TensorFlow, in which T5 and mT5 were first published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.errors import InputError


def read_mesh_tensorflow(prefix: Path) -> dict[str, LazyTensor]:
    """Lists the variables of a TensorFlow checkpoint; partitioned ones are joined.

    Args:
        prefix: The common prefix of its files, such as `mt5_small/model.ckpt-1000000`.

    Raises:
        InputError: Files are missing or damaged.
    """
    import tensorflow as tf

    def damaged(error: Exception) -> InputError:
        return InputError(
            "A TensorFlow checkpoint must be complete: `.index` and all `.data` files; download it again. "
            f"Received: {str(prefix)!r} ({str(error).splitlines()[0]})."
        )

    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except (tf.errors.OpError, ValueError) as error:
        raise damaged(error) from error

    def read(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            raise damaged(error) from error

    dtypes: dict[str, Any] = reader.get_variable_to_dtype_map()
    return {
        name: LazyTensor(tuple(shape), dtypes[name].name, _bind(read, name))
        for name, shape in reader.get_variable_to_shape_map().items()
    }


def _bind(read: Callable[[str], np.ndarray], name: str) -> Callable[[], np.ndarray]:
    return lambda: read(name)
