"""`transformers` on torch as an engine of the benchmark. Runs in .parity."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from engine_loop import serve

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from torch_encoder import load_encoder, versions


def main() -> None:
    """Serves: `torch_engine.py WEIGHTS THREADS`."""
    threads = int(sys.argv[2])
    torch.set_num_threads(threads)
    model, projection = load_encoder(sys.argv[1], d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6)
    model.eval()

    @torch.inference_mode()
    def run(ids: np.ndarray) -> np.ndarray:
        tokens = torch.from_numpy(ids.astype(np.int64))
        mask = (tokens != 0).long()
        hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        vectors = torch.nn.functional.normalize(hidden @ projection, dim=-1) * mask[:, :, None]
        return vectors.numpy()

    serve(run, versions(model, threads))


if __name__ == "__main__":
    main()
