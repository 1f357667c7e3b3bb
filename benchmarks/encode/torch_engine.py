"""`transformers` on torch as an engine of the benchmark. Runs in .parity."""

from __future__ import annotations

import sys

import numpy as np
import torch
import transformers
from engine_loop import serve
from safetensors.torch import load_file
from transformers import MT5Config, MT5EncoderModel

_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}


def load_model(path: str) -> tuple[MT5EncoderModel, torch.Tensor]:
    """The encoder and the projection, from weights under canonical (T5X) names."""
    weights = load_file(path)
    config = MT5Config(
        vocab_size=weights["token_embedder/embedding"].shape[0],
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=8,
        num_heads=6,
    )
    model = MT5EncoderModel(config).eval()
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


def main() -> None:
    """Serves: `torch_engine.py WEIGHTS THREADS`."""
    threads = int(sys.argv[2])
    torch.set_num_threads(threads)
    model, projection = load_model(sys.argv[1])

    @torch.inference_mode()
    def run(ids: np.ndarray) -> np.ndarray:
        tokens = torch.from_numpy(ids.astype(np.int64))
        mask = (tokens != 0).long()
        hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        vectors = torch.nn.functional.normalize(hidden @ projection, dim=-1) * mask[:, :, None]
        return vectors.numpy()

    attention = model.config._attn_implementation
    serve(
        run,
        f"torch {torch.__version__}, transformers {transformers.__version__} ({attention} attention), "
        f"{threads} threads",
    )


if __name__ == "__main__":
    main()
