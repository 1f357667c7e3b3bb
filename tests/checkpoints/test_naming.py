"""The tables of names: complete, invertible, and those of real checkpoints."""

from __future__ import annotations

import pytest

from xtr_tf.checkpoints.naming import HUGGING_FACE, MESH_TENSORFLOW, T5X, Naming
from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.model.weights import weight_shapes


@pytest.mark.parametrize("naming", [HUGGING_FACE, MESH_TENSORFLOW, T5X], ids=lambda naming: naming.title)
@pytest.mark.parametrize("preset", ["mt5_base", "t5_small"])
def test_every_weight_has_a_name_that_leads_back_to_it(naming: Naming, preset: str) -> None:
    weights = set(weight_shapes(ENCODER_PRESETS[preset]))
    if naming is not HUGGING_FACE:
        weights.remove("projection/kernel")
    foreign = naming.foreign_names(weights)
    assert foreign.keys() == weights
    for name, rule in foreign.items():
        found = naming.find(rule.foreign)
        assert found is not None
        assert (found.ours, found.transposed) == (name, rule.transposed)
        assert not naming.drops(rule.foreign)


@pytest.mark.parametrize(
    ("naming", "foreign", "ours", "transposed"),
    [
        (HUGGING_FACE, "shared.weight", "token_embedder/embedding", False),
        (HUGGING_FACE, "encoder.embed_tokens.weight", "token_embedder/embedding", False),
        (
            HUGGING_FACE,
            "encoder.block.11.layer.0.SelfAttention.o.weight",
            "encoder/layers_11/attention/out/kernel",
            True,
        ),
        (
            HUGGING_FACE,
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "encoder/relpos_bias/rel_embedding",
            True,
        ),
        (HUGGING_FACE, "2_Dense/linear.weight", "projection/kernel", True),
        (
            MESH_TENSORFLOW,
            "encoder/block_011/layer_000/SelfAttention/o",
            "encoder/layers_11/attention/out/kernel",
            False,
        ),
        (
            MESH_TENSORFLOW,
            "encoder/block_003/layer_001/rms_norm/scale",
            "encoder/layers_3/pre_mlp_layer_norm/scale",
            False,
        ),
        (MESH_TENSORFLOW, "encoder/rms_norm/scale", "encoder/encoder_norm/scale", False),
        (
            T5X,
            "target/encoder/layers_7/pre_mlp_layer_norm/scale",
            "encoder/layers_7/pre_mlp_layer_norm/scale",
            False,
        ),
    ],
)
def test_names_of_published_checkpoints(naming: Naming, foreign: str, ours: str, transposed: bool) -> None:
    found = naming.find(foreign)
    assert found is not None
    assert (found.ours, found.transposed) == (ours, transposed)


@pytest.mark.parametrize(
    ("naming", "foreign"),
    [
        (HUGGING_FACE, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
        (HUGGING_FACE, "lm_head.weight"),
        (MESH_TENSORFLOW, "global_step"),
        (MESH_TENSORFLOW, "encoder/block_000/layer_000/SelfAttention/q_slot_vr"),
        (MESH_TENSORFLOW, "shared/embedding_slot_v"),
        (MESH_TENSORFLOW, "decoder/logits/kernel"),
        (T5X, "state/param_states/token_embedder/embedding/v_row"),
        (T5X, "target/decoder/relpos_bias/rel_embedding"),
    ],
)
def test_what_an_encoder_does_not_need_is_dropped_by_name(naming: Naming, foreign: str) -> None:
    assert naming.drops(foreign)


@pytest.mark.parametrize(
    ("naming", "foreign"),
    [
        # umT5 has a position bias in every block, a scanned T5X model all layers in one tensor.
        (HUGGING_FACE, "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"),
        (T5X, "target/encoder/encoder/attention/query/kernel"),
        (MESH_TENSORFLOW, "encoder/block_001/layer_000/SelfAttention/relative_attention_bias"),
        (HUGGING_FACE, "2_Dense/linear.bias"),
        (HUGGING_FACE, "encoder.block.x.layer.0.layer_norm.weight"),
        (HUGGING_FACE, "xshared.weight"),
        (HUGGING_FACE, "sharedXweight"),
    ],
)
def test_anything_else_is_unknown(naming: Naming, foreign: str) -> None:
    assert naming.find(foreign) is None
    assert not naming.drops(foreign)
