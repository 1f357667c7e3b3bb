"""The sizes of a checkpoint's encoder, from its `config.json` or from the tensors themselves.

Hugging Face describes every model. T5X and Mesh-TensorFlow write a gin file at best, but everything except
the activation follows from the shapes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xtr_tf.config.model import EncoderConfig
from xtr_tf.errors import InputError

_SIZES = {
    "vocab_size": "vocabulary_size",
    "d_model": "model_dim",
    "d_ff": "feed_forward_dim",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "d_kv": "head_dim",
}
_OPTIONAL = {
    "relative_attention_num_buckets": "relative_buckets",
    "relative_attention_max_distance": "relative_max_distance",
    "layer_norm_epsilon": "norm_epsilon",
    "dropout_rate": "dropout",
}
_FEED_FORWARDS = ("gated-gelu", "relu")
_GIN_ACTIVATION = re.compile(
    r"^[ \t]*(?:\S*DenseReluDense\.activation|(?:\S*\.)?mlp_activations)[ \t]*=[ \t]*(.+?)[ \t]*$",
    re.MULTILINE,
)


def read_hugging_face_config(file: Path) -> EncoderConfig:
    """Reads the `config.json` of a T5 or mT5 model.

    Raises:
        InputError: It describes another kind of model, or sizes are missing.
    """
    config = _read_json(file)
    kind = config.get("model_type")
    if kind not in ("t5", "mt5"):
        raise InputError(
            "Only checkpoints of `model_type` t5 or mt5 can be imported. "
            f"Received: {kind!r} in {str(file)!r}."
        )
    # T5 1.0 is older than the entry.
    feed_forward = config.get("feed_forward_proj", "relu")
    if feed_forward not in _FEED_FORWARDS:
        raise InputError(
            f"`feed_forward_proj` must be one of {', '.join(_FEED_FORWARDS)}. "
            f"Received: {feed_forward!r} in {str(file)!r}."
        )
    missing = [name for name in _SIZES if not isinstance(config.get(name), int)]
    if missing:
        raise InputError(
            f"The model's description must give these as integers. Received: {missing!r} missing or not "
            f"integers in {str(file)!r}."
        )
    settings: dict[str, Any] = {ours: config[theirs] for theirs, ours in _SIZES.items()}
    settings |= {ours: config[theirs] for theirs, ours in _OPTIONAL.items() if theirs in config}
    return EncoderConfig(feed_forward=feed_forward, **settings)


def check_projection_config(file: Path) -> None:
    """Refuses a projection that does more than multiply by a matrix.

    Args:
        file: The `config.json` of a `2_Dense` folder; nothing is checked if it does not exist.

    Raises:
        InputError: The projection has a bias or an activation.
    """
    if not file.is_file():
        return
    config = _read_json(file)
    activation = str(config.get("activation_function", "Identity"))
    if config.get("bias") or not activation.endswith("Identity"):
        raise InputError(
            "The projection must have no bias and no activation. "
            f"Received: bias {config.get('bias')!r} and {activation!r} in {str(file)!r}."
        )


def infer_config(shapes: Mapping[str, tuple[int, ...]], gin_file: Path | None) -> EncoderConfig:
    """Derives an encoder's sizes from its weights.

    Args:
        shapes: Canonical name to shape, for the tensors that were found.
        gin_file: The gin file next to the checkpoint, consulted only for the activation.

    Returns:
        The shape of the encoder.

    Raises:
        InputError: Tensors that tell a size are missing, or the activation is not supported.
    """
    try:
        vocabulary_size, model_dim = shapes["token_embedder/embedding"]
        num_heads, buckets = shapes["encoder/relpos_bias/rel_embedding"]
        _, heads_dim = shapes["encoder/layers_0/attention/query/kernel"]
        feed_forward_dim, _ = shapes["encoder/layers_0/mlp/wo/kernel"]
    except (KeyError, ValueError) as error:
        raise InputError(
            "The encoder's sizes are not in the checkpoint; name a preset that has them. "
            f"Received: no usable {error}."
        ) from error
    if heads_dim % num_heads:
        raise InputError(
            "The attention's width must be a multiple of the number of heads. "
            f"Received: {heads_dim} and {num_heads}."
        )
    gated = "encoder/layers_0/mlp/wi_0/kernel" in shapes
    if gin_file is not None:
        _check_activation(gin_file, gated)
    layers = {match[1] for name in shapes if (match := re.match(r"encoder/layers_(\d+)/", name))}
    return EncoderConfig(
        vocabulary_size=vocabulary_size,
        model_dim=model_dim,
        feed_forward_dim=feed_forward_dim,
        num_layers=max(map(int, layers)) + 1,
        num_heads=num_heads,
        head_dim=heads_dim // num_heads,
        feed_forward="gated-gelu" if gated else "relu",
        relative_buckets=buckets,
    )


def _check_activation(gin_file: Path, gated: bool) -> None:
    expected = ["gelu", "linear"] if gated else ["relu"]
    for text in _GIN_ACTIVATION.findall(gin_file.read_text("utf-8", errors="replace")):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        activations = [value] if isinstance(value, str) else list(value)
        if activations != expected:
            raise InputError(
                f"The feed-forward layer's activation must be {expected!r}. "
                f"Received: {text} in {str(gin_file)!r}."
            )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"A model's description must be JSON. Received: {str(file)!r} ({error}).") from error
    if not isinstance(content, dict):
        raise InputError(f"A model's description must be a JSON object. Received: {str(file)!r}.")
    return content
