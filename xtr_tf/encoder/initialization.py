"""The random weights a T5 encoder starts from, by canonical name. Needs no TensorFlow.

Standard deviations are those of T5X, so that training from scratch begins where T5's did.
"""

from __future__ import annotations

import math
import zlib

import numpy as np

from xtr_tf.config.schema import EncoderConfig
from xtr_tf.encoder.weights import weight_shapes

# Standard deviation of a standard normal cut off at -2 and 2.
_TRUNCATED_DEVIATION = 0.8796256610342398


def initial_weight(config: EncoderConfig, name: str, seed: int) -> np.ndarray:
    """A weight before training, float32; the same for the same configuration, name and seed.

    Attention kernels are normal with variance `1 / inputs` (the query's divided by
    `head_dim`, in place of scaled logits), feed-forward kernels and the projection the same
    but cut at two deviations, embeddings standard normal, norm scales one, position biases
    uniform.

    Args:
        config: The encoder's shape.
        name: A name that `weight_shapes` gives.
        seed: Seed of the whole encoder.
    """
    shape = weight_shapes(config)[name]
    random = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
    if name.endswith("/scale"):
        return np.ones(shape, np.float32)
    if name.endswith("/rel_embedding"):
        limit = math.sqrt(3 / (sum(shape) / 2))
        return random.uniform(-limit, limit, shape).astype(np.float32)
    if name.endswith("/embedding"):
        return random.standard_normal(shape, np.float32)
    deviation = math.sqrt(1 / shape[0])
    if "/attention/" in name:
        if name.endswith("/query/kernel"):
            deviation /= math.sqrt(config.head_dim)
        return random.standard_normal(shape, np.float32) * np.float32(deviation)
    return _truncated_normal(random, shape) * np.float32(deviation / _TRUNCATED_DEVIATION)


def _truncated_normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, those beyond two drawn again."""
    values = random.standard_normal(shape, np.float32)
    outside = np.abs(values) > 2
    while outside.any():
        values[outside] = random.standard_normal(int(outside.sum()), np.float32)
        outside = np.abs(values) > 2
    return values
