"""What an import checks before it writes: everything, all at once."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.checkpoints.model_config import check_projection_config, infer_config, read_hugging_face_config
from xtr_tf.checkpoints.naming import MESH_TENSORFLOW
from xtr_tf.checkpoints.opening import Checkpoint, open_checkpoint
from xtr_tf.checkpoints.plan import inspect_tensors, plan_import
from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.errors import InputError
from xtr_tf.model.weights import weight_shapes

WO = "encoder.block.0.layer.1.DenseReluDense.wo.weight"
SMALL = {
    "model_type": "mt5",
    "vocab_size": 250112,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
}


@pytest.fixture
def xtr(golden: Any) -> Checkpoint:
    return open_checkpoint(golden.path("released_xtr"))


def changed(checkpoint: Checkpoint, **tensors: LazyTensor | None) -> Checkpoint:
    """The checkpoint with some tensors replaced, added or (None) removed."""
    merged = {**checkpoint.tensors, **tensors}
    return dataclasses.replace(
        checkpoint, tensors={name: tensor for name, tensor in merged.items() if tensor is not None}
    )


def tensor(*shape: int, dtype: str = "float32") -> LazyTensor:
    return LazyTensor(shape, dtype, lambda: np.zeros(shape, np.float32))


def test_a_good_checkpoint_has_no_problems(xtr: Checkpoint) -> None:
    plan = plan_import(xtr)
    assert plan.problems == {}
    assert plan.assignments.keys() == weight_shapes(plan.config).keys()
    plan.check("path")


def test_every_problem_is_listed_at_once(xtr: Checkpoint) -> None:
    checkpoint = changed(
        xtr,
        **{
            WO: tensor(24, 16),
            "encoder.final_layer_norm.weight": None,
            "encoder.block.1.layer.0.layer_norm.weight": tensor(16, dtype="int32"),
            "encoder.block.2.layer.0.layer_norm.weight": tensor(16),
            "pooler.weight": tensor(16),
            "encoder.block.0.layer.1.DenseReluDense.wi.weight": tensor(24, 16),
        },
    )
    with pytest.raises(InputError) as caught:
        plan_import(checkpoint).check("the/path")
    message = str(caught.value)
    assert message.count(". Received") == 1
    assert message.endswith("Received: 'the/path'.")
    for phrase in (
        f"{WO} has shape [24, 16] instead of [16, 24]",
        "encoder/encoder_norm/scale is missing",
        "encoder.block.1.layer.0.layer_norm.weight is int32 instead of float32 or bfloat16 or float16",
        "encoder.block.2.layer.0.layer_norm.weight is not part of an encoder of this size",
        "pooler.weight has no place in the encoder",
        "DenseReluDense.wi.weight is not part of an encoder of this size",
    ):
        assert phrase in message
    assert message.count(";") == 5


def test_a_missing_projection_needs_a_seed(xtr: Checkpoint) -> None:
    without = changed(xtr, **{"2_Dense/linear.weight": None})
    with pytest.raises(InputError, match="projection/kernel is missing, and there is no seed"):
        plan_import(without).check("x")
    plan = plan_import(without, initialize_projection=True)
    plan.check("x")
    assert plan.config.projection_dim == 128
    assert plan_import(without, initialize_projection=True, projection_dim=32).config.projection_dim == 32


def test_the_projections_width_is_the_checkpoints(xtr: Checkpoint) -> None:
    plan = plan_import(changed(xtr, **{"2_Dense/linear.weight": tensor(48, 16)}), projection_dim=128)
    assert plan.config.projection_dim == 48
    assert plan.problems == {}


def test_a_second_name_is_used_only_without_the_first(xtr: Checkpoint) -> None:
    both = plan_import(changed(xtr, **{"encoder.embed_tokens.weight": tensor(96, 16)}))
    assert both.dropped == ["encoder.embed_tokens.weight"]
    assert both.assignments["token_embedder/embedding"].foreign == "shared.weight"
    alone = plan_import(
        changed(xtr, **{"encoder.embed_tokens.weight": tensor(96, 16), "shared.weight": None})
    )
    assert alone.problems == {}
    assert alone.assignments["token_embedder/embedding"].foreign == "encoder.embed_tokens.weight"


def test_two_tensors_for_one_weight_are_refused(golden: Any) -> None:
    tensors = {"encoder/rms_norm/scale": tensor(16), "encoder/final_layer_norm/scale": tensor(16)}
    mesh = Checkpoint(golden.path("t5x_t5"), MESH_TENSORFLOW, tensors)
    assert "is the same weight as" in str(plan_import(mesh, preset="t5_small").problems)


def test_a_preset_is_what_the_checkpoint_must_fit(xtr: Checkpoint) -> None:
    assert len(plan_import(xtr, preset="mt5_small").problems) > 20
    with pytest.raises(InputError, match=r"must be one of .*mt5_small.*Received: 'mt5_tall'"):
        plan_import(xtr, preset="mt5_tall")


def test_an_inspection_lists_tensors_and_gaps(xtr: Checkpoint) -> None:
    checkpoint = changed(
        xtr,
        **{"encoder.final_layer_norm.weight": None, "lm_head.weight": tensor(96, 16), WO: tensor(1)},
    )
    rows = {row.name or row.becomes: row for row in inspect_tensors(checkpoint, plan_import(checkpoint))}
    assert rows["lm_head.weight"].verdict == "dropped"
    assert rows["shared.weight"].becomes == "token_embedder/embedding"
    assert rows["shared.weight"].verdict == "imported"
    assert rows[WO].verdict == "has shape [1] instead of [16, 24]"
    assert rows["encoder/encoder_norm/scale"].verdict == "is missing"


def write(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_published_config_is_the_preset(tmp_path: Path) -> None:
    assert read_hugging_face_config(write(tmp_path, SMALL)) == ENCODER_PRESETS["mt5_small"]


def test_t5_1_0_is_older_than_its_entries(tmp_path: Path) -> None:
    old = {key: value for key, value in SMALL.items() if key != "feed_forward_proj"} | {"model_type": "t5"}
    assert read_hugging_face_config(write(tmp_path, old)).feed_forward == "relu"


def test_unusual_sizes_are_read(tmp_path: Path) -> None:
    unusual = {
        "relative_attention_num_buckets": 16,
        "relative_attention_max_distance": 40,
        "layer_norm_epsilon": 1e-5,
        "dropout_rate": 0.0,
    }
    config = read_hugging_face_config(write(tmp_path, SMALL | unusual))
    assert (config.relative_buckets, config.relative_max_distance) == (16, 40)
    assert (config.norm_epsilon, config.dropout) == (1e-5, 0.0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "must be JSON"),
        ("[]", "JSON object"),
        (SMALL | {"model_type": "umt5"}, "Received: 'umt5'"),
        (SMALL | {"feed_forward_proj": "gated-silu"}, "Received: 'gated-silu'"),
        ({"model_type": "t5", "d_model": "512"}, "'vocab_size', 'd_model', 'd_ff', 'num_layers'"),
        (SMALL | {"num_heads": 0}, "num_heads"),
    ],
)
def test_an_unusable_config_is_refused(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_hugging_face_config(write(tmp_path, content))


def test_a_projection_must_be_only_a_matrix(tmp_path: Path) -> None:
    check_projection_config(tmp_path / "absent.json")
    check_projection_config(write(tmp_path, {"activation_function": "torch.nn.modules.linear.Identity"}))
    for content in ({"bias": True}, {"activation_function": "torch.nn.modules.activation.Tanh"}):
        with pytest.raises(InputError, match="no bias and no activation"):
            check_projection_config(write(tmp_path, content))


@pytest.mark.parametrize("preset", sorted(ENCODER_PRESETS))
def test_sizes_are_seen_in_the_shapes(preset: str) -> None:
    config = ENCODER_PRESETS[preset]
    inferred = infer_config(weight_shapes(config), None)
    assert inferred == dataclasses.replace(config, rematerialize=False)


def gin(tmp_path: Path, content: str) -> Path:
    file = tmp_path / "operative_config.gin"
    file.write_text(content)
    return file


@pytest.mark.parametrize(
    ("preset", "content"),
    [
        ("mt5_small", "# Parameters\nDenseReluDense.activation = ['gelu', 'linear']\n"),
        ("mt5_small", "network.T5Config:\n  emb_dim = 512\n  mlp_activations = ('gelu', 'linear')\n"),
        ("t5_small", "transformer_layers.DenseReluDense.activation = 'relu'\n"),
        ("t5_small", "network.T5Config.mlp_activations = ('relu',)\n"),
        ("t5_small", "d_model = 512\n"),
    ],
)
def test_a_gin_file_may_confirm_the_activation(tmp_path: Path, preset: str, content: str) -> None:
    assert infer_config(weight_shapes(ENCODER_PRESETS[preset]), gin(tmp_path, content)).num_layers > 0


@pytest.mark.parametrize("activation", ["['silu', 'linear']", "('relu', 'linear')", "%act"])
def test_a_gin_file_may_name_another_activation(tmp_path: Path, activation: str) -> None:
    file = gin(tmp_path, f"DenseReluDense.activation = {activation}\n")
    with pytest.raises(InputError, match=r"must be \['gelu', 'linear'\]"):
        infer_config(weight_shapes(ENCODER_PRESETS["mt5_small"]), file)


def test_sizes_that_cannot_be_seen_are_refused() -> None:
    shapes = weight_shapes(EncoderConfig())
    del shapes["encoder/layers_0/mlp/wo/kernel"]
    with pytest.raises(InputError, match=r"name a preset.*encoder/layers_0/mlp/wo/kernel"):
        infer_config(shapes, None)
    with pytest.raises(InputError, match="multiple of the number of heads"):
        infer_config({**weight_shapes(EncoderConfig()), "encoder/relpos_bias/rel_embedding": (7, 32)}, None)


def test_paths_that_hold_no_checkpoint(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path / "absent", "no checkpoint at this path"),
        (tmp_path, "has no checkpoint"),
        (write(tmp_path, SMALL), "weight file must be"),
    ):
        with pytest.raises(InputError, match=complaint):
            open_checkpoint(path)


def test_a_folder_of_t5x_steps_opens_at_the_newest(golden: Any, tmp_path: Path) -> None:
    for step in (900, 1000):
        (tmp_path / f"checkpoint_{step}").symlink_to(golden.path("t5x_t5"))
    (tmp_path / "config.gin").write_text("mlp_activations = ('relu',)\n")
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.path.name == "checkpoint_1000"
    assert checkpoint.config_file == tmp_path / "config.gin"


def test_a_weight_file_opens_as_its_folder(golden: Any) -> None:
    folder = golden.path("sharded_mt5")
    assert open_checkpoint(folder / "model.safetensors.index.json").tensors.keys() == (
        open_checkpoint(folder).tensors.keys()
    )
