"""Mesh-TensorFlow checkpoints, written here by TensorFlow's own saver under the published names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.checkpoints.importing import import_checkpoint
from xtr_tf.checkpoints.mesh_tensorflow import read_mesh_tensorflow
from xtr_tf.checkpoints.naming import T5X
from xtr_tf.checkpoints.opening import open_checkpoint
from xtr_tf.errors import InputError
from xtr_tf.model.folder import load_encoder

v1 = tf.compat.v1


def published_names(layers: int) -> dict[str, str]:
    """Names of the variables in T5's and mT5's buckets to ours, spelt out rather than derived."""
    names = {
        "shared/embedding": "token_embedder/embedding",
        "encoder/block_000/layer_000/SelfAttention/relative_attention_bias": (
            "encoder/relpos_bias/rel_embedding"
        ),
        "encoder/rms_norm/scale": "encoder/encoder_norm/scale",
    }
    for i in range(layers):
        block, layer = f"encoder/block_{i:03d}", f"encoder/layers_{i}"
        names[f"{block}/layer_000/SelfAttention/q"] = f"{layer}/attention/query/kernel"
        names[f"{block}/layer_000/SelfAttention/k"] = f"{layer}/attention/key/kernel"
        names[f"{block}/layer_000/SelfAttention/v"] = f"{layer}/attention/value/kernel"
        names[f"{block}/layer_000/SelfAttention/o"] = f"{layer}/attention/out/kernel"
        names[f"{block}/layer_000/rms_norm/scale"] = f"{layer}/pre_attention_layer_norm/scale"
        names[f"{block}/layer_001/DenseReluDense/wi/kernel"] = f"{layer}/mlp/wi/kernel"
        names[f"{block}/layer_001/DenseReluDense/wo/kernel"] = f"{layer}/mlp/wo/kernel"
        names[f"{block}/layer_001/rms_norm/scale"] = f"{layer}/pre_mlp_layer_norm/scale"
    return names


@pytest.fixture(scope="module")
def weights(golden: Any) -> dict[str, np.ndarray]:
    """The weights of the golden T5X checkpoint under the names of Mesh-TensorFlow."""
    tensors = {
        rule.ours: tensor.read().astype(np.float32)
        for name, tensor in open_checkpoint(golden.path("t5x_t5")).tensors.items()
        if (rule := T5X.find(name))
    }
    return {name: tensors[ours] for name, ours in published_names(layers=2).items()}


@pytest.fixture(scope="module")
def prefix(weights: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as the Estimator saves it: with slots, a decoder and a partitioned variable."""
    folder = tmp_path_factory.mktemp("mesh")
    with tf.Graph().as_default(), v1.Session() as session:
        assignments = []
        for name, value in weights.items():
            partitioner = v1.fixed_size_partitioner(3) if name == "shared/embedding" else None
            variable = v1.get_variable(name, shape=value.shape, partitioner=partitioner, use_resource=False)
            assignments.append(variable.assign(value))
            if value.ndim == 2:
                v1.get_variable(f"{name}_slot_vr", shape=value.shape[:1])
                v1.get_variable(f"{name}_slot_vc", shape=value.shape[1:])
            else:
                v1.get_variable(f"{name}_slot_v", shape=value.shape)
        v1.get_variable("decoder/block_000/layer_001/EncDecAttention/q", shape=(16, 24))
        v1.get_variable("global_step", initializer=np.int64(1_000_000))
        session.run(v1.global_variables_initializer())
        session.run(assignments)
        saved = v1.train.Saver(sharded=True).save(session, str(folder / "model.ckpt"), global_step=1_000_000)
    (folder / "operative_config.gin").write_text("DenseReluDense.activation = 'relu'\n")
    return Path(saved.split("-?")[0])


def test_variables_are_listed_whole(prefix: Path, weights: dict[str, np.ndarray]) -> None:
    tensors = read_mesh_tensorflow(prefix)
    assert weights.keys() <= tensors.keys()
    for name, value in weights.items():
        assert (tensors[name].shape, tensors[name].dtype) == (value.shape, "float32")
        np.testing.assert_array_equal(tensors[name].read(), value)


@pytest.mark.parametrize("given", ["prefix", "index", "folder"])
def test_vectors_are_those_of_transformers(
    golden: Any, prefix: Path, weights: dict[str, np.ndarray], tmp_path: Path, given: str
) -> None:
    source = {"prefix": prefix, "index": prefix.with_name(f"{prefix.name}.index"), "folder": prefix.parent}
    report = import_checkpoint(
        source[given], tmp_path / "encoder", tokenizer=golden.tokenizer, projection_seed=0
    )
    assert (report.family, report.dropped) == ("Mesh-TensorFlow", 2 + 2 * len(weights) - 5)
    encoder, _ = load_encoder(tmp_path / "encoder")
    expected = golden.expected("t5x_t5")
    encoder.set_canonical_weights(
        encoder.get_canonical_weights() | {"projection/kernel": expected.projection.T}
    )
    assert np.abs(encoder(tf.constant(expected.ids)).numpy() - expected.vectors).max() < 2e-5


def test_missing_or_damaged_files_are_refused(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`\.index` and all `\.data` files"):
        read_mesh_tensorflow(tmp_path / "model.ckpt-1")
    index = tmp_path / "model.ckpt-1.index"
    index.write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"`\.index` and all `\.data` files"):
        open_checkpoint(index)
    index.write_bytes(prefix.with_name(f"{prefix.name}.index").read_bytes())
    with pytest.raises(InputError, match=r"`\.index` and all `\.data` files"):
        open_checkpoint(tmp_path).tensors["shared/embedding"].read()


def test_one_of_several_checkpoints_must_be_named(tmp_path: Path) -> None:
    for step in (1, 2):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    with pytest.raises(InputError, match=r"several.*'model\.ckpt-1', 'model\.ckpt-2'"):
        open_checkpoint(tmp_path)
