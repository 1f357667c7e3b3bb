"""nomic-embed-text-v1.5 in torch, from its GGUF file: rotary positions, SwiGLU, normalisation after each sum.

Run inside the `nomic` environment, never with xtr_tf's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import BertWordPieceTokenizer
from torch.nn import functional

BLOCKS, WIDTH, HEADS, EPSILON, ROTARY_BASE = 12, 768, 12, 1e-12, 1000.0
HEAD_DIM = WIDTH // HEADS
PREFIXES = {"query": "search_query: ", "document": "search_document: "}
LONGEST = 512  # tokens of a text; the model takes 2,048, and few texts of the sets are longer than this


class Nomic:
    """Texts to unit vectors, as the model's card says.

    Args:
        path: `nomic-embed-text-v1.5.f16.gguf`.
    """

    width = WIDTH

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        pieces = reader.fields["tokenizer.ggml.tokens"].contents()
        self.tokenizer = _tokenizer(pieces)
        # GGUF names sizes from the last axis to the first, but the data is in NumPy's order.
        self.weights = {own.name: torch.from_numpy(np.array(own.data)).float() for own in reader.tensors}

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        """Returns `[texts, 768]` float32; `kind` is `query` or `document`."""
        encoded = self.tokenizer.encode_batch([PREFIXES[kind] + text for text in texts])
        ids = torch.tensor([own.ids for own in encoded])
        mask = torch.tensor([own.attention_mask for own in encoded])
        # Documents in bfloat16: a third of the time, and vectors differ by a cosine of 0.00002.
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=kind == "document"):
            states = self._states(ids, mask)
            means = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            return functional.normalize(means).numpy()

    def _states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = self.weights
        states = weights["token_embd.weight"][ids] + weights["token_types.weight"][0]
        states = self._normalise(states, "token_embd_norm")
        rotation = _rotation(ids.shape[1])
        allowed = mask[:, None, None, :].bool()
        for block in range(BLOCKS):
            name = f"blk.{block}"
            states = self._normalise(
                states + self._attend(states, name, rotation, allowed), f"{name}.attn_output_norm"
            )
            hidden = functional.silu(
                functional.linear(states, weights[f"{name}.ffn_gate.weight"])
            ) * functional.linear(states, weights[f"{name}.ffn_up.weight"])
            states = states + functional.linear(hidden, weights[f"{name}.ffn_down.weight"])
            states = self._normalise(states, f"{name}.layer_output_norm")
        return states

    def _attend(
        self,
        states: torch.Tensor,
        name: str,
        rotation: tuple[torch.Tensor, torch.Tensor],
        allowed: torch.Tensor,
    ) -> torch.Tensor:
        batch, length, _ = states.shape
        projected = functional.linear(states, self.weights[f"{name}.attn_qkv.weight"])
        query, key, value = projected.view(batch, length, 3, HEADS, HEAD_DIM).permute(2, 0, 3, 1, 4)
        query, key = _rotate(query, *rotation), _rotate(key, *rotation)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        joined = attended.transpose(1, 2).reshape(batch, length, WIDTH)
        return functional.linear(joined, self.weights[f"{name}.attn_output.weight"])

    def _normalise(self, states: torch.Tensor, name: str) -> torch.Tensor:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(states, (WIDTH,), scale, shift, EPSILON)


def _tokenizer(pieces: list[str]) -> BertWordPieceTokenizer:
    """BERT's own vocabulary again: GGUF marks the beginnings of words instead of their continuations."""

    def original(piece: str) -> str:
        if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
            return piece
        return piece[1:] if piece.startswith("▁") else f"##{piece}"

    vocabulary = {original(piece): number for number, piece in enumerate(pieces)}
    tokenizer = BertWordPieceTokenizer(vocabulary)
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()
    return tokenizer


def _rotation(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies = ROTARY_BASE ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def _rotate(heads: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-second, first), dim=-1) * sine
