"""Loads an exported checkpoint with `transformers` and encodes texts with it. Runs in .parity.

    .parity/bin/python tools/parity/encode_with_transformers.py EXPORTED TEXTS.json OUT.safetensors

Must not import xtr_tf: it reads the export like any other program.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
import transformers


@torch.inference_mode()
def encode(folder: Path, texts: list[str]) -> dict[str, np.ndarray]:
    """Ids and XTR's vectors, from the model class that the checkpoint names and from `AutoModel`."""
    architecture = getattr(transformers, transformers.AutoConfig.from_pretrained(folder).architectures[0])
    model, loading = architecture.from_pretrained(folder, output_loading_info=True)
    if any(loading.values()):
        raise SystemExit(f"transformers did not find what it expected: {loading}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    projection = safetensors.torch.load_file(folder / "2_Dense" / "model.safetensors")["linear.weight"]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    mask = batch["attention_mask"]
    results = {"ids": batch["input_ids"].numpy().astype(np.int32)}
    whole = transformers.AutoModel.from_pretrained(folder)
    for name, encoder in (("vectors", model), ("vectors_of_auto_model", whole.encoder)):
        hidden = encoder.eval()(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
        vectors = torch.nn.functional.normalize(hidden @ projection.T, dim=-1) * mask[:, :, None]
        results[name] = vectors.numpy()
    return results


def main() -> None:
    """Encodes the texts of a JSON list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exported", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    texts = json.loads(arguments.texts.read_text("utf-8"))
    safetensors.numpy.save_file(encode(arguments.exported, texts), arguments.out)


if __name__ == "__main__":
    main()
