"""The same step in torch, written plainly, as an engine of the benchmark. Runs in .parity."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from engine_loop import peak_mib, read_batches, serve
from transformers.optimization import Adafactor

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from torch_encoder import load_encoder, versions


class Model(torch.nn.Module):
    """transformers' encoder, the projection and unit length.

    Args:
        path: Weights under canonical (T5X) names.
        sizes: `MT5Config`'s arguments.
    """

    def __init__(self, path: str, sizes: dict[str, float]) -> None:
        super().__init__()
        self.encoder, projection = load_encoder(path, **sizes)
        self.projection = torch.nn.Parameter(projection.clone())

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

    serve(imported_mib, update, loss, len(batches), versions(model.encoder, threads))


if __name__ == "__main__":
    main()
