"""Imported encoders give the vectors that transformers gives; failures leave nothing behind."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.checkpoints.safetensors import read_safetensors
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.errors import InputError
from xtr_tf.model.folder import load_encoder

TOLERANCE = 2e-5


def vectors_of(directory: Path, golden: Any, name: str) -> np.ndarray:
    """Vectors of an imported golden checkpoint, with the projection it was written with."""
    encoder, _ = load_encoder(directory)
    expected = golden.expected(name)
    weights = encoder.get_canonical_weights()
    encoder.set_canonical_weights(weights | {"projection/kernel": expected.projection.T})
    return encoder(tf.constant(expected.ids)).numpy()


@pytest.mark.parametrize("name", ["sharded_mt5", "torch_t5", "legacy_torch_mt5", "t5x_t5"])
def test_vectors_are_those_of_transformers(golden: Any, tmp_path: Path, name: str) -> None:
    report = import_checkpoint(
        golden.path(name), tmp_path / "encoder", tokenizer=golden.tokenizer, projection_seed=0
    )
    assert report.config.feed_forward == ("gated-gelu" if name.endswith("mt5") else "relu")
    difference = np.abs(vectors_of(tmp_path / "encoder", golden, name) - golden.expected(name).vectors)
    assert difference.max() < TOLERANCE


def test_the_released_xtr_layout_from_strings_to_vectors(golden: Any, tmp_path: Path) -> None:
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    encoder, tokenizer = load_encoder(tmp_path / "encoder")
    expected = golden.expected("released_xtr")
    ids = tokenizer.tokenize_documents(tf.constant(expected.texts))
    length = expected.ids.shape[1]
    np.testing.assert_array_equal(ids[:, :length], expected.ids)
    vectors = encoder(ids).numpy()
    assert np.abs(vectors[:, :length] - expected.vectors).max() < TOLERANCE
    assert not vectors[:, length:].any()


def test_a_projection_is_drawn_from_its_seed(golden: Any, tmp_path: Path) -> None:
    kernels = []
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        import_checkpoint(
            golden.path("t5x_t5"),
            tmp_path / name,
            tokenizer=golden.tokenizer,
            projection_seed=seed,
            projection_dim=64,
        )
        kernels.append(read_safetensors(tmp_path / name / "weights.safetensors")["projection/kernel"].read())
    assert kernels[0].shape == (16, 64)
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[0], kernels[2])
    assert 0.2 < kernels[0].std() < 0.3


def test_a_projection_of_the_checkpoint_is_never_drawn(golden: Any, tmp_path: Path) -> None:
    import_checkpoint(golden.path("released_xtr"), tmp_path / "a", projection_seed=1)
    kernel = read_safetensors(tmp_path / "a" / "weights.safetensors")["projection/kernel"].read()
    np.testing.assert_array_equal(kernel, golden.expected("released_xtr").projection.T)


def test_the_tokenizers_settings_travel(golden: Any, tmp_path: Path) -> None:
    settings = TokenizerConfig(lowercase=False, query_length=8, document_length=20)
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder", tokenizer=settings)
    _, tokenizer = load_encoder(tmp_path / "encoder")
    assert dataclasses.replace(tokenizer.config, model="") == settings


def test_progress_reaches_the_end(golden: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_checkpoint(
        golden.path("released_xtr"), tmp_path / "encoder", progress=lambda *step: seen.append(step)
    )
    weights = read_safetensors(tmp_path / "encoder" / "weights.safetensors")
    total = 4 * sum(math.prod(weight.shape) for weight in weights.values())
    assert seen[-1] == (total, total)
    assert len(seen) == len(weights)
    assert seen == sorted(seen)


def without_traces(folder: Path) -> bool:
    return not any(folder.iterdir())


def test_a_failed_check_writes_nothing(golden: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(InputError, match="projection/kernel is missing"):
        import_checkpoint(golden.path("t5x_t5"), out / "encoder", tokenizer=golden.tokenizer)
    with pytest.raises(InputError, match="SentencePiece model is needed too"):
        import_checkpoint(golden.path("sharded_mt5"), out / "encoder")
    assert without_traces(out)


def test_a_failure_while_writing_leaves_nothing(golden: Any, tmp_path: Path) -> None:
    source = shutil.copytree(golden.path("t5x_t5"), tmp_path / "source")
    (source / "target.encoder.layers_1.mlp.wi.kernel" / "0.0").write_bytes(b"damaged")
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(InputError, match="truncated or damaged"):
        import_checkpoint(source, out / "encoder", tokenizer=golden.tokenizer, projection_seed=0)
    assert without_traces(out)


def test_an_existing_directory_is_replaced_only_when_asked(golden: Any, tmp_path: Path) -> None:
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    with pytest.raises(InputError, match="allow overwriting"):
        import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    import_checkpoint(
        golden.path("legacy_torch_mt5"), tmp_path / "encoder", tokenizer=golden.tokenizer, overwrite=True
    )
    vectors = vectors_of(tmp_path / "encoder", golden, "legacy_torch_mt5")
    assert np.abs(vectors - golden.expected("legacy_torch_mt5").vectors).max() < TOLERANCE


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (b"no model", "must be a SentencePiece model"),
        (b"", "padding as its first piece"),
        (None, "SentencePiece model is needed too"),
    ],
)
def test_a_bad_tokenizer_is_refused(golden: Any, tmp_path: Path, model: bytes | None, complaint: str) -> None:
    file = tmp_path / "spiece.model"
    if model is not None:
        file.write_bytes(model)
    with pytest.raises(InputError, match=complaint):
        import_checkpoint(
            golden.path("released_xtr"), tmp_path / "encoder", tokenizer=TokenizerConfig(model=str(file))
        )


def test_a_vocabulary_that_is_too_large_is_refused(
    golden: Any, tmp_path: Path, atlas_vocabulary: Path
) -> None:
    with pytest.raises(InputError, match=r"embeddings, 96\. Received: 3000 pieces"):
        import_checkpoint(
            golden.path("released_xtr"),
            tmp_path / "encoder",
            tokenizer=TokenizerConfig(model=str(atlas_vocabulary)),
        )


def test_wrong_sizes_in_the_config_are_listed(golden: Any, tmp_path: Path) -> None:
    source = Path(shutil.copytree(golden.path("released_xtr"), tmp_path / "source"))
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"d_ff": 32, "num_layers": 3}))
    with pytest.raises(InputError) as caught:
        import_checkpoint(source, tmp_path / "encoder")
    assert "wo.weight has shape [16, 24] instead of [16, 32]" in str(caught.value)
    assert "encoder/layers_2/attention/key/kernel is missing" in str(caught.value)
