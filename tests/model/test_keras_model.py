"""The encoder as a Keras model: saved, copied, summarised, made from presets and used in other models."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.errors import InputError
from xtr_tf.model.block import EncoderBlock, FeedForward, SelfAttention
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.layers import Linear, RelativePositionBias, TokenEmbedder


@pytest.mark.parametrize(
    "changes",
    [{}, {"feed_forward": "relu"}, {"dtype": "mixed_bfloat16"}],
    ids=["float32", "relu", "bfloat16"],
)
def test_a_keras_file_brings_the_same_encoder_back(make_encoder, make_ids, tmp_path, changes):
    encoder, ids = make_encoder(**changes), tf.constant(make_ids([9, 4]))
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    assert type(again) is Encoder
    assert again.config == encoder.config
    for name, weight in encoder.get_canonical_weights().items():
        np.testing.assert_array_equal(again.get_canonical_weights()[name], weight, err_msg=name)
    np.testing.assert_array_equal(again(ids), encoder(ids))


def test_an_encoder_is_part_of_another_keras_model(small_encoder, make_ids):
    inputs = keras.Input((None,), dtype="int32")
    vectors = small_encoder(inputs)
    assert vectors.shape == (None, None, 24)
    model = keras.Model(inputs, keras.layers.GlobalMaxPooling1D()(vectors))
    ids = tf.constant(make_ids([9, 4]))
    np.testing.assert_allclose(model(ids), tf.reduce_max(small_encoder(ids), axis=1), atol=1e-6)


def test_the_summary_names_layers_shapes_and_parameters(small_encoder):
    lines: list[str] = []
    small_encoder.summary(print_fn=lambda text, **_: lines.append(text), line_length=110)
    text = "\n".join(lines)
    for expected in ("token_embedder", "layers_1", "encoder_norm", "projection", "(None, None, 24)"):
        assert expected in text
    parameters = sum(weight.size for weight in small_encoder.get_canonical_weights().values())
    assert f"{parameters:,}" in text


def test_a_preset_gives_the_published_size():
    encoder = Encoder.from_preset("mt5_tiny", vocabulary_size=300, dropout=0.0)
    assert encoder.config.dropout == 0.0
    assert encoder.config.num_layers == ENCODER_PRESETS["mt5_tiny"].num_layers
    assert encoder(tf.constant([[17, 4, 1, 0]])).shape == (1, 4, 128)
    with pytest.raises(InputError, match=r"must be one of .*mt5_small.* Received: 'mt5_huge'"):
        Encoder.from_preset("mt5_huge")


@pytest.mark.parametrize(
    "layer",
    [
        Linear(7),
        TokenEmbedder(9, 4, embedding_dim=2),
        RelativePositionBias(2, 32, 128),
        SelfAttention(2, 8, dropout=0.1),
        FeedForward(16, "relu", dropout=0.1),
        EncoderBlock(2, 8, 16, "relu", dropout=0.1, norm_epsilon=1e-5),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_come_back_from_their_configuration(layer):
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()


def test_layers_build_themselves_on_their_first_call():
    hidden, bias = tf.random.normal([2, 5, 12]), tf.zeros([1, 2, 5, 5])
    assert EncoderBlock(2, 8, 16)(hidden, bias).shape == (2, 5, 12)
    assert RelativePositionBias(2, 32, 128)(tf.zeros([2, 5], tf.int32)).shape == (1, 2, 5, 5)
