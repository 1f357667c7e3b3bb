"""A small model that uses every kind of tensor, saved once per run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tensorflow as tf

    class Toy(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.string, name="text"),
                tf.TensorSpec([], tf.int32, name="times"),
            ]
        )
        def repeat(self, text: tf.Tensor, times: tf.Tensor) -> dict[str, tf.Tensor]:
            check = tf.debugging.Assert(times >= 0, ["`times` must not be negative. Received:", times])
            with tf.control_dependencies([check]):
                times = tf.identity(times)
            return {"repeated": tf.repeat(text, times), "lengths": tf.strings.length(text)}

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="vectors")])
        def multiply(self, vectors: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"product": vectors @ self.weights}

        @tf.function(
            input_signature=[
                tf.TensorSpec(None, dtype, name=dtype.name)
                for dtype in (tf.float64, tf.int64, tf.int8, tf.uint8, tf.bool, tf.float16, tf.string)
            ]
        )
        def mirror(self, *values: tf.Tensor) -> dict[str, tf.Tensor]:
            return {f"same_{value.dtype.name}": tf.identity(value) for value in values}

    directory = tmp_path_factory.mktemp("toy") / "1"
    toy = Toy()
    signatures = {"repeat": toy.repeat, "multiply": toy.multiply, "mirror": toy.mirror}
    tf.saved_model.save(toy, str(directory), signatures=signatures)
    return directory
