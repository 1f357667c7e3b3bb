"""The same step in torch, written plainly, as an engine of the benchmark. Runs in .parity."""

from __future__ import annotations

import json
import sys

import torch
import transformers
from engine_loop import peak_mib, read_batches, serve
from safetensors.torch import load_file
from transformers import MT5Config, MT5EncoderModel
from transformers.optimization import Adafactor

_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}


class Model(torch.nn.Module):
    """transformers' encoder, the projection and unit length.

    Args:
        path: Weights under canonical (T5X) names.
        sizes: `MT5Config`'s arguments.
    """

    def __init__(self, path: str, sizes: dict[str, float]) -> None:
        super().__init__()
        weights = load_file(path)
        self.encoder = MT5EncoderModel(MT5Config(**sizes))
        self.projection = torch.nn.Parameter(weights["projection/kernel"].clone())
        state = {
            "shared.weight": weights["token_embedder/embedding"],
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": weights[
                "encoder/relpos_bias/rel_embedding"
            ].T,
            "encoder.final_layer_norm.weight": weights["encoder/encoder_norm/scale"],
        }
        for index in range(int(sizes["num_layers"])):
            ours, theirs = f"encoder/layers_{index}", f"encoder.block.{index}.layer"
            state[f"{theirs}.0.layer_norm.weight"] = weights[f"{ours}/pre_attention_layer_norm/scale"]
            state[f"{theirs}.1.layer_norm.weight"] = weights[f"{ours}/pre_mlp_layer_norm/scale"]
            for name, short in _ATTENTION.items():
                state[f"{theirs}.0.SelfAttention.{short}.weight"] = weights[
                    f"{ours}/attention/{name}/kernel"
                ].T
            for name in ("wi_0", "wi_1", "wo"):
                state[f"{theirs}.1.DenseReluDense.{name}.weight"] = weights[f"{ours}/mlp/{name}/kernel"].T
        missing, unexpected = self.encoder.load_state_dict(state, strict=False)
        if unexpected or set(missing) - {"encoder.embed_tokens.weight"}:
            raise RuntimeError(f"weights do not fit: missing {missing}, unexpected {unexpected}")

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors `[B, length, dim]` and mask `[B, length]` of ids."""
        mask = ids != 0
        hidden = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return torch.nn.functional.normalize(hidden @ self.projection, dim=-1), mask


def xtr_loss(
    queries: torch.Tensor,
    query_mask: torch.Tensor,
    documents: torch.Tensor,
    document_mask: torch.Tensor,
    k_train: int,
) -> torch.Tensor:
    """Cross entropy of f_XTR over the batch's documents, as the paper writes it."""
    similarities = torch.einsum("qnx,dmx->qndm", queries, documents)
    similarities = similarities.masked_fill(~document_mask, -torch.inf)
    with torch.no_grad():
        tokens = similarities.flatten(2)
        threshold = tokens.topk(min(k_train, tokens.shape[-1]), dim=-1).values[..., -1]
    retrieved = similarities >= threshold[:, :, None, None]
    maxima = similarities.masked_fill(~retrieved, -torch.inf).amax(dim=-1)
    found = maxima.isfinite() & query_mask[:, :, None]
    totals = torch.where(found, maxima, 0.0).sum(dim=1)
    scores = totals / found.sum(dim=1).clamp(min=1)
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def main() -> None:
    """Serves: `torch_engine.py SIZES WEIGHTS BATCHES THREADS`, sizes as JSON with `k_train`."""
    imported_mib = peak_mib()
    sizes, weights, path, threads = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    k_train = sizes.pop("k_train")
    model = Model(weights, sizes)
    optimizer = Adafactor(model.parameters(), lr=1e-3, relative_step=False, scale_parameter=True)
    batches = [
        (torch.from_numpy(queries).long(), torch.from_numpy(documents).long())
        for queries, documents in read_batches(path)
    ]

    def update(number: int) -> float:
        model.train()
        queries, documents = batches[number]
        loss = xtr_loss(*model(queries), *model(documents), k_train)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    @torch.inference_mode()
    def loss() -> float:
        model.eval()
        queries, documents = batches[0]
        return xtr_loss(*model(queries), *model(documents), k_train).item()

    attention = model.encoder.config._attn_implementation
    versions = (
        f"torch {torch.__version__}, transformers {transformers.__version__} ({attention} attention), "
        f"{threads} threads"
    )
    serve(imported_mib, update, loss, len(batches), versions)


if __name__ == "__main__":
    main()
