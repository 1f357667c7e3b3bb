"""Our encoder as an engine of the benchmark. Runs in .venv."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf
from engine_loop import serve
from safetensors.numpy import load_file
from workload import CONFIG

from xtr_tf.model.encoder import Encoder


def main() -> None:
    """Serves: `tensorflow_engine.py WEIGHTS THREADS`."""
    weights, threads = sys.argv[1], int(sys.argv[2])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    encoder = Encoder(CONFIG, seed=None)
    encoder.set_canonical_weights(load_file(weights))
    # One graph for all shapes, as in an exported model.
    encode = tf.function(encoder, input_signature=[tf.TensorSpec([None, None], tf.int32)])

    def run(ids: np.ndarray) -> np.ndarray:
        return encode(tf.constant(ids)).numpy()

    serve(run, f"tensorflow {tf.__version__}, {threads} threads")


if __name__ == "__main__":
    main()
