"""The encoder against a T5 in plain NumPy, one position at a time: slow, obvious, and float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding
from xtr_tf.config.model import EncoderConfig


def bucket(distance: int, buckets: int, max_distance: int) -> int:
    half = buckets // 2
    exact = half // 2
    offset = half if distance > 0 else 0
    distance = abs(distance)
    if distance < exact:
        return offset + distance
    growth = math.log(distance / exact) / math.log(max_distance / exact) * (half - exact)
    return offset + min(exact + int(growth + 1e-9), half - 1)


def rms_norm(values: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    return values / np.sqrt((values**2).mean(-1, keepdims=True) + epsilon) * scale


def gelu(values: np.ndarray) -> np.ndarray:
    return 0.5 * values * (1 + np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)))


def encode(config: EncoderConfig, weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Vectors `[length, projection_dim]` of one text without padding."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    table = weights["encoder/relpos_bias/rel_embedding"]
    hidden = weights["token_embedder/embedding"][ids]
    if "token_embedder/kernel" in weights:
        hidden = hidden @ weights["token_embedder/kernel"]
    for index in range(config.num_layers):
        layer = f"encoder/layers_{index}"
        normed = rms_norm(hidden, weights[f"{layer}/pre_attention_layer_norm/scale"], config.norm_epsilon)
        query, key, value = (
            normed @ weights[f"{layer}/attention/{name}/kernel"] for name in ("query", "key", "value")
        )
        attended = np.zeros_like(query)
        for head in range(config.num_heads):
            columns = slice(head * config.head_dim, (head + 1) * config.head_dim)
            for i in range(len(ids)):
                logits = np.array(
                    [
                        query[i, columns] @ key[j, columns]
                        + table[head, bucket(j - i, config.relative_buckets, config.relative_max_distance)]
                        for j in range(len(ids))
                    ]
                )
                exponentials = np.exp(logits - logits.max())
                attended[i, columns] = exponentials / exponentials.sum() @ value[:, columns]
        hidden = hidden + attended @ weights[f"{layer}/attention/out/kernel"]
        normed = rms_norm(hidden, weights[f"{layer}/pre_mlp_layer_norm/scale"], config.norm_epsilon)
        if config.feed_forward == "gated-gelu":
            inner = gelu(normed @ weights[f"{layer}/mlp/wi_0/kernel"])
            inner = inner * (normed @ weights[f"{layer}/mlp/wi_1/kernel"])
        else:
            inner = np.maximum(normed @ weights[f"{layer}/mlp/wi/kernel"], 0)
        hidden = hidden + inner @ weights[f"{layer}/mlp/wo/kernel"]
    hidden = rms_norm(hidden, weights["encoder/encoder_norm/scale"], config.norm_epsilon)
    vectors = hidden @ weights["projection/kernel"]
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "changes", [{"feed_forward": "gated-gelu"}, {"feed_forward": "relu"}, {"embedding_dim": 8}]
)
def test_vectors_equal_the_numpy_reference(make_encoder, make_ids, changes):
    encoder = make_encoder(**changes, relative_buckets=8, relative_max_distance=12)
    ids = make_ids([23, 9])
    vectors = encoder(tf.constant(ids)).numpy()
    for row, length in enumerate([23, 9]):
        expected = encode(encoder.config, encoder.get_canonical_weights(), ids[row, :length].tolist())
        np.testing.assert_allclose(vectors[row, :length], expected, rtol=0, atol=network_rounding(700))
