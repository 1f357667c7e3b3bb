"""Encoders of `transformers` with random weights, and their outputs. Runs in .parity.

Must not import xtr_tf: the reference must be independent of our code.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from transformers import MT5Config, MT5EncoderModel, T5Config, T5EncoderModel


@dataclasses.dataclass(frozen=True)
class ReferenceConfig:
    """The shape of an encoder, in the field names of xtr-tf's `EncoderConfig`."""

    vocabulary_size: int = 64
    model_dim: int = 32
    feed_forward_dim: int = 48
    num_layers: int = 2
    num_heads: int = 3
    head_dim: int = 16
    feed_forward: str = "gated-gelu"
    relative_buckets: int = 32
    relative_max_distance: int = 128
    norm_epsilon: float = 1e-6
    projection_dim: int = 128


class ReferenceModel:
    """A `transformers` encoder with random weights in every parameter, and a projection.

    Weights are rounded to float16, so that a golden file stores them exactly in half the space.

    Args:
        config: The shape.
        family: The model class, `mt5` or `t5`.
        seed: Seed of the weights.
    """

    def __init__(self, config: ReferenceConfig, family: str, seed: int) -> None:
        config_class, model_class = {
            "mt5": (MT5Config, MT5EncoderModel),
            "t5": (T5Config, T5EncoderModel),
        }[family]
        self.config = config
        self.model = model_class(
            config_class(
                vocab_size=config.vocabulary_size,
                d_model=config.model_dim,
                d_kv=config.head_dim,
                d_ff=config.feed_forward_dim,
                num_layers=config.num_layers,
                num_heads=config.num_heads,
                feed_forward_proj=config.feed_forward,
                relative_attention_num_buckets=config.relative_buckets,
                relative_attention_max_distance=config.relative_max_distance,
                layer_norm_epsilon=config.norm_epsilon,
            )
        ).eval()
        random = torch.Generator().manual_seed(seed)
        self._randomize(random)
        projection = torch.randn(config.projection_dim, config.model_dim, generator=random)
        self.projection = (projection / config.model_dim**0.5).half().float()

    @torch.inference_mode()
    def _randomize(self, random: torch.Generator) -> None:
        """Draws weights that are never one or zero, so that a swap or an omission shows."""
        for name, parameter in self.model.named_parameters():
            values = torch.randn(parameter.shape, generator=random)
            if name.endswith("layer_norm.weight"):
                values = 1 + 0.3 * values
            elif ".q." in name:
                values /= (self.config.model_dim * self.config.head_dim) ** 0.5
            elif "relative_attention_bias" not in name and "shared" not in name:
                values /= parameter.shape[1] ** 0.5
            parameter.copy_(values.half().float())

    @torch.inference_mode()
    def run(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hidden states `[batch, length, model_dim]` and XTR's vectors `[batch, length, 128]`."""
        tokens = torch.from_numpy(ids.astype(np.int64))
        mask = (tokens != 0).long()
        hidden = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        vectors = torch.nn.functional.normalize(hidden @ self.projection.T, dim=-1) * mask[:, :, None]
        return hidden.numpy(), vectors.numpy()

    def canonical_weights(self) -> dict[str, np.ndarray]:
        """The weights in T5X's names and layouts, float16."""
        state = {name: value.numpy() for name, value in self.model.state_dict().items()}
        weights = {
            "token_embedder/embedding": state["shared.weight"],
            "encoder/relpos_bias/rel_embedding": state[
                "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            ].T,
            "encoder/encoder_norm/scale": state["encoder.final_layer_norm.weight"],
            "projection/kernel": self.projection.numpy().T,
        }
        inputs = ("wi_0", "wi_1") if self.config.feed_forward == "gated-gelu" else ("wi",)
        for index in range(self.config.num_layers):
            ours, theirs = f"encoder/layers_{index}", f"encoder.block.{index}.layer"
            weights[f"{ours}/pre_attention_layer_norm/scale"] = state[f"{theirs}.0.layer_norm.weight"]
            weights[f"{ours}/pre_mlp_layer_norm/scale"] = state[f"{theirs}.1.layer_norm.weight"]
            for name, short in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "o")):
                weights[f"{ours}/attention/{name}/kernel"] = state[
                    f"{theirs}.0.SelfAttention.{short}.weight"
                ].T
            for name in (*inputs, "wo"):
                weights[f"{ours}/mlp/{name}/kernel"] = state[f"{theirs}.1.DenseReluDense.{name}.weight"].T
        return {name: np.ascontiguousarray(value, np.float16) for name, value in weights.items()}
