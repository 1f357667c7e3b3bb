"""What is exported comes back the same, and is laid out as others expect it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tests.support.numbers import network_rounding
from xtr_tf.checkpoints.exporting import export_checkpoint
from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.config.model import EncoderConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_manifest, save_encoder, write_manifest
from xtr_tf.model.tokenizer import Tokenizer


@pytest.mark.parametrize("name", ["released_xtr", "torch_t5"])
def test_export_and_import_give_the_same_directory(golden: Any, tmp_path: Path, name: str) -> None:
    first = import_checkpoint(golden.path(name), tmp_path / "first", tokenizer=golden.tokenizer)
    export_checkpoint(tmp_path / "first", tmp_path / "exported")
    second = import_checkpoint(tmp_path / "exported", tmp_path / "second", tokenizer=golden.tokenizer)
    assert second.fingerprint == first.fingerprint
    assert second.dropped == 0


def test_the_export_is_what_transformers_wrote(golden: Any, tmp_path: Path) -> None:
    """Exporting an imported checkpoint restores it, tensor by tensor and setting by setting."""
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    export_checkpoint(tmp_path / "encoder", tmp_path / "exported")
    original = load_file(golden.path("released_xtr") / "model.safetensors")
    exported = load_file(tmp_path / "exported" / "model.safetensors")
    assert exported.keys() == original.keys()
    for name, tensor in original.items():
        np.testing.assert_array_equal(exported[name], tensor)
    with safe_open(tmp_path / "exported" / "model.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}
    projection = load_file(tmp_path / "exported" / "2_Dense" / "model.safetensors")
    np.testing.assert_array_equal(projection["linear.weight"], golden.expected("released_xtr").projection)
    ours, theirs = (
        json.loads((folder / "config.json").read_text())
        for folder in (tmp_path / "exported", golden.path("released_xtr"))
    )
    shared = ours.keys() & theirs.keys() - {"architectures", "model_type", "is_encoder_decoder"}
    assert len(shared) > 12
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert (tmp_path / "exported" / "spiece.model").read_bytes() == golden.spiece.read_bytes()


def test_relu_models_are_exported_as_t5(golden: Any, tmp_path: Path) -> None:
    import_checkpoint(golden.path("torch_t5"), tmp_path / "encoder", tokenizer=golden.tokenizer)
    export_checkpoint(tmp_path / "encoder", tmp_path / "exported")
    config = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert config["architectures"] == ["T5EncoderModel"]
    assert (config["feed_forward_proj"], config["is_gated_act"]) == ("relu", False)


def test_a_factored_table_is_exported_as_its_product(golden: Any, tmp_path: Path) -> None:
    """transformers' T5 has no kernel after its table; the encoder that comes back gives the same vectors."""
    tokenizer = Tokenizer(golden.tokenizer)
    sizes = {"model_dim": 32, "feed_forward_dim": 48, "num_layers": 1, "num_heads": 2, "head_dim": 16}
    encoder = Encoder(EncoderConfig(tokenizer.vocabulary_size, **sizes, embedding_dim=8))
    save_encoder(tmp_path / "factored", encoder, tokenizer)
    export_checkpoint(tmp_path / "factored", tmp_path / "exported")
    import_checkpoint(tmp_path / "exported", tmp_path / "whole", tokenizer=golden.tokenizer)
    whole, _ = load_encoder(tmp_path / "whole")
    assert whole.config.embedding_dim == 0
    ids = np.array([[7, 5, 3, 1], [9, 1, 0, 0]], np.int32)
    np.testing.assert_allclose(whole(ids), encoder(ids), rtol=0, atol=network_rounding(32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_directories_are_exported_in_full(golden: Any, tmp_path: Path, dtype: Any) -> None:
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    manifest = read_manifest(tmp_path / "encoder")
    weights = load_file(tmp_path / "encoder" / "weights.safetensors")
    halved = {name: weight.astype(dtype) for name, weight in weights.items()}
    save_file(halved, tmp_path / "encoder" / "weights.safetensors")
    write_manifest(tmp_path / "encoder", manifest.encoder, manifest.tokenizer)
    export_checkpoint(tmp_path / "encoder", tmp_path / "exported")
    exported = load_file(tmp_path / "exported" / "model.safetensors")
    np.testing.assert_array_equal(
        exported["encoder.block.0.layer.0.SelfAttention.q.weight"],
        halved["encoder/layers_0/attention/query/kernel"].T.astype(np.float32),
    )
    assert {tensor.dtype for tensor in exported.values()} == {np.dtype(np.float32)}


def test_only_an_encoder_directory_is_exported(golden: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"encoder\.json"):
        export_checkpoint(golden.path("released_xtr"), tmp_path / "exported")
    import_checkpoint(golden.path("released_xtr"), tmp_path / "encoder")
    (tmp_path / "exported").mkdir()
    with pytest.raises(InputError, match="allow overwriting"):
        export_checkpoint(tmp_path / "encoder", tmp_path / "exported")
    weights = tmp_path / "encoder" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InputError, match="fingerprint"):
        export_checkpoint(tmp_path / "encoder", tmp_path / "other")
