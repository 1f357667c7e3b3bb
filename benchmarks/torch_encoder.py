"""transformers' mT5 encoder with our weights, for the engines on torch. Runs in .parity."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import load_file
from transformers import MT5Config, MT5EncoderModel

_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}


def load_encoder(path: str, **sizes: Any) -> tuple[MT5EncoderModel, torch.Tensor]:
    """The encoder and the projection, from weights under canonical (T5X) names.

    Args:
        path: The weights, a safetensors file.
        sizes: `MT5Config`'s arguments; the vocabulary's size follows from the weights.
    """
    weights = load_file(path)
    config = MT5Config(**{"vocab_size": weights["token_embedder/embedding"].shape[0], **sizes})
    model = MT5EncoderModel(config)
    state = {
        "shared.weight": weights["token_embedder/embedding"],
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": weights[
            "encoder/relpos_bias/rel_embedding"
        ].T,
        "encoder.final_layer_norm.weight": weights["encoder/encoder_norm/scale"],
    }
    for index in range(config.num_layers):
        ours, theirs = f"encoder/layers_{index}", f"encoder.block.{index}.layer"
        state[f"{theirs}.0.layer_norm.weight"] = weights[f"{ours}/pre_attention_layer_norm/scale"]
        state[f"{theirs}.1.layer_norm.weight"] = weights[f"{ours}/pre_mlp_layer_norm/scale"]
        for name, short in _ATTENTION.items():
            state[f"{theirs}.0.SelfAttention.{short}.weight"] = weights[f"{ours}/attention/{name}/kernel"].T
        for name in ("wi_0", "wi_1", "wo"):
            state[f"{theirs}.1.DenseReluDense.{name}.weight"] = weights[f"{ours}/mlp/{name}/kernel"].T
    missing, unexpected = model.load_state_dict(
        {name: value.contiguous() for name, value in state.items()}, strict=False
    )
    if unexpected or set(missing) - {"encoder.embed_tokens.weight"}:
        raise RuntimeError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model, weights["projection/kernel"].contiguous()


def versions(model: MT5EncoderModel, threads: int) -> str:
    """Returns the versions, for the report."""
    import transformers

    attention = model.config._attn_implementation
    return (
        f"torch {torch.__version__}, transformers {transformers.__version__} ({attention} attention), "
        f"{threads} threads"
    )
