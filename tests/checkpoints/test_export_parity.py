"""transformers loads our exports and computes the same vectors; run by `make parity`."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from xtr_tf.checkpoints.exporting import export_checkpoint
from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.vocabulary import corpus_texts

PARITY_PYTHON = os.environ.get("XTR_TF_PARITY_PYTHON")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PARITY_PYTHON is None, reason="transformers is no part of this environment; `make parity` runs it"
    ),
]


def write_encoder(directory: Path, preset: str, vocabulary: Path) -> Tokenizer:
    """A freshly initialised encoder with every weight moved away from where it began."""
    tokenizer = Tokenizer(TokenizerConfig(model=str(vocabulary)))
    encoder = Encoder(dataclasses.replace(ENCODER_PRESETS[preset], vocabulary_size=tokenizer.vocabulary_size))
    random = np.random.default_rng()
    encoder.set_canonical_weights(
        {
            name: weight * random.uniform(0.5, 1.5, weight.shape).astype(np.float32)
            for name, weight in encoder.get_canonical_weights().items()
        }
    )
    save_encoder(directory, encoder, tokenizer)
    return tokenizer


def encode_elsewhere(
    folder: Path, texts: list[str], tmp_path: Path, repository: Path
) -> dict[str, np.ndarray]:
    (tmp_path / "texts.json").write_text(json.dumps([text.lower() for text in texts]))
    script = repository / "tools" / "parity" / "encode_with_transformers.py"
    out = tmp_path / "vectors.safetensors"
    subprocess.run([str(PARITY_PYTHON), script, folder, tmp_path / "texts.json", out], check=True)
    return load_file(out)


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("preset", ["mt5_small", "t5_small"])
def test_transformers_agrees(
    repository: Path, atlas: Path, atlas_vocabulary: Path, tmp_path: Path, preset: str, trimmed: bool
) -> None:
    texts = list(corpus_texts(atlas))[::10]
    directory = tmp_path / "encoder"
    write_encoder(directory, preset, atlas_vocabulary)
    export_checkpoint(directory, tmp_path / "exported")
    if trimmed:
        corpus = tmp_path / "corpus.jsonl"
        corpus.write_text(
            "".join(json.dumps({"_id": str(i), "text": text}) + "\n" for i, text in enumerate(texts))
        )
        import_checkpoint(tmp_path / "exported", directory, keep_pieces_of=[corpus], overwrite=True)
        export_checkpoint(directory, tmp_path / "exported", overwrite=True)
    theirs = encode_elsewhere(tmp_path / "exported", texts, tmp_path, repository)
    encoder, tokenizer = load_encoder(directory)
    ids = tokenizer.tokenize_documents(tf.constant(texts))[:, : theirs["ids"].shape[1]]
    np.testing.assert_array_equal(ids, theirs["ids"])
    vectors = encoder(ids).numpy()
    assert np.abs(vectors - theirs["vectors"]).max() <= 2e-5
    assert np.abs(vectors - theirs["vectors_of_auto_model"]).max() <= 2e-5
