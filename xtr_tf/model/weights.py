"""The canonical names and shapes of an encoder's weights, which are T5X's, flat and `/`-joined.

Importers, exporters, folders and the encoder itself share these names, and every initial value is drawn
here. Needs no TensorFlow.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xtr_tf.config.model import EncoderConfig
from xtr_tf.errors import InputError


def weight_shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    """Every weight of an encoder: canonical name to shape, in the order of computation.

    Kernels are `[inputs, outputs]`, so that `y = x @ kernel`.

    Example:
        >>> from xtr_tf.config.presets import ENCODER_PRESETS
        >>> weight_shapes(ENCODER_PRESETS["mt5_small"])["encoder/layers_0/attention/query/kernel"]
        (512, 384)
    """
    model, inner, heads = config.model_dim, config.feed_forward_dim, config.num_heads * config.head_dim
    inputs = ("wi_0", "wi_1") if config.feed_forward == "gated-gelu" else ("wi",)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedder/embedding": (config.vocabulary_size, config.embedding_dim or model),
        **({"token_embedder/kernel": (config.embedding_dim, model)} if config.embedding_dim else {}),
        "encoder/relpos_bias/rel_embedding": (config.num_heads, config.relative_buckets),
    }
    for index in range(config.num_layers):
        layer = f"encoder/layers_{index}"
        shapes[f"{layer}/pre_attention_layer_norm/scale"] = (model,)
        for name in ("query", "key", "value"):
            shapes[f"{layer}/attention/{name}/kernel"] = (model, heads)
        shapes[f"{layer}/attention/out/kernel"] = (heads, model)
        shapes[f"{layer}/pre_mlp_layer_norm/scale"] = (model,)
        for name in inputs:
            shapes[f"{layer}/mlp/{name}/kernel"] = (model, inner)
        shapes[f"{layer}/mlp/wo/kernel"] = (inner, model)
    shapes["encoder/encoder_norm/scale"] = (model,)
    shapes["projection/kernel"] = (model, config.projection_dim)
    return shapes


def check_weights(expected: Mapping[str, tuple[int, ...]], weights: Mapping[str, Any]) -> None:
    """Raises one `InputError` that lists every missing, unexpected and wrongly shaped weight.

    Args:
        expected: What `weight_shapes` gives.
        weights: Canonical name to anything with a `shape`; nothing else is read.
    """
    problems = [f"missing {name}" for name in expected if name not in weights]
    problems += [f"unexpected {name}" for name in weights if name not in expected]
    for name, shape in expected.items():
        if name in weights and tuple(weights[name].shape) != shape:
            problems.append(f"{name} has shape {list(weights[name].shape)} instead of {list(shape)}")
    if problems:
        raise InputError(
            "The weights do not fit the encoder's configuration; check that both come from the same model. "
            f"Received: {'; '.join(problems)}."
        )


# Standard deviation of a standard normal cut off at -2 and 2.
_TRUNCATED_DEVIATION = 0.8796256610342398


def initial_weight(config: EncoderConfig, name: str, seed: int) -> np.ndarray:
    """A weight before training, float32; the same for the same configuration, name and seed.

    Attention kernels are normal with variance `1 / inputs` (the query's is divided by `head_dim`,
    instead of scaling the logits). Feed-forward kernels, the projection and the embedding's kernel
    are the same, but truncated at two deviations. Embeddings are standard normal, norm scales are
    one, and position biases are uniform.

    Args:
        config: The encoder's shape.
        name: A name that `weight_shapes` gives.
        seed: Seed of the whole encoder.

    Returns:
        The values.
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
    """Standard normal numbers; those beyond two are drawn again."""
    values = random.standard_normal(shape, np.float32)
    outside = np.abs(values) > 2
    while outside.any():
        values[outside] = random.standard_normal(int(outside.sum()), np.float32)
        outside = np.abs(values) > 2
    return values
