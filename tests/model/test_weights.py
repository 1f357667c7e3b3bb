from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.errors import InputError
from xtr_tf.model.weights import initial_weight, weight_shapes


def test_shapes_need_no_tensorflow():
    code = (
        "import sys, xtr_tf.model.weights, xtr_tf.model.weights, xtr_tf.model.folder;"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        # Encoder and embedding of the published models, counted without the projection.
        ("mt5_small", 146_940_608),
        ("mt5_base", 277_040_256),
        ("t5_base", 109_628_544),
        ("t5_1_1_base", 109_628_544),
    ],
)
def test_presets_have_as_many_parameters_as_the_published_encoders(preset, parameters):
    shapes = weight_shapes(ENCODER_PRESETS[preset])
    projection = shapes.pop("projection/kernel")
    assert projection[1] == 128
    assert sum(math.prod(shape) for shape in shapes.values()) == parameters


@pytest.mark.parametrize("changes", [{}, {"feed_forward": "relu"}, {"embedding_dim": 8}])
def test_an_encoder_has_exactly_the_canonical_weights(make_encoder, changes):
    encoder = make_encoder(**changes)
    shapes = {name: weight.shape for name, weight in encoder.get_canonical_weights().items()}
    assert list(shapes.items()) == list(weight_shapes(encoder.config).items())
    assert len(encoder.variables) == len(shapes)


def test_a_factored_table_is_as_wide_as_asked_for(make_encoder):
    shapes = weight_shapes(make_encoder(embedding_dim=8).config)
    assert shapes["token_embedder/embedding"] == (101, 8)
    assert shapes["token_embedder/kernel"] == (8, 32)
    assert "token_embedder/kernel" not in weight_shapes(make_encoder().config)
    with pytest.raises(InputError, match=r"embedding_dim.*Received: -1"):
        make_encoder(embedding_dim=-1)


def test_weights_come_back_as_they_were_set(make_encoder):
    encoder, other = make_encoder(), make_encoder()
    weights = {
        name: np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
        for name, shape in weight_shapes(encoder.config).items()
    }
    encoder.set_canonical_weights(weights)
    other.set_canonical_weights(encoder.get_canonical_weights())
    for name, weight in other.get_canonical_weights().items():
        np.testing.assert_array_equal(weight, weights[name])


def test_all_that_does_not_fit_is_listed_and_nothing_is_set(make_encoder):
    encoder = make_encoder()
    before = encoder.get_canonical_weights()
    weights = {name: np.zeros_like(weight) for name, weight in before.items()}
    del weights["projection/kernel"], weights["encoder/encoder_norm/scale"]
    weights["decoder/stray"] = np.zeros(3)
    weights["encoder/layers_1/mlp/wo/kernel"] = np.zeros((32, 48))
    with pytest.raises(InputError) as raised:
        encoder.set_canonical_weights(weights)
    for problem in (
        "missing projection/kernel",
        "missing encoder/encoder_norm/scale",
        "unexpected decoder/stray",
        "encoder/layers_1/mlp/wo/kernel has shape [32, 48] instead of [48, 32]",
    ):
        assert problem in str(raised.value)
    for name, weight in encoder.get_canonical_weights().items():
        np.testing.assert_array_equal(weight, before[name])


class Lazy:
    """A weight in a file, which records when it is read."""

    def __init__(self, name: str, shape: tuple[int, ...], reads: list[str]) -> None:
        self.name, self.shape, self.reads = name, shape, reads

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        self.reads.append(self.name)
        return np.full(self.shape, len(self.reads), np.float16)


def test_weights_are_read_one_after_the_other_and_only_if_all_fit(make_encoder):
    encoder = make_encoder()
    shapes = weight_shapes(encoder.config)
    reads: list[str] = []
    lazy = {name: Lazy(name, shape, reads) for name, shape in shapes.items()}
    with pytest.raises(InputError):
        encoder.set_canonical_weights({**lazy, "stray": Lazy("stray", (1,), reads)})
    assert reads == []
    encoder.set_canonical_weights(lazy)
    assert reads == list(shapes)
    for number, weight in enumerate(encoder.get_canonical_weights().values(), start=1):
        assert (weight == number).all()


def test_initial_deviations_are_those_of_t5():
    config = ENCODER_PRESETS["t5_1_1_small"]
    model, heads, inner = 512, 6 * 64, 1024
    expected = {
        "token_embedder/embedding": 1.0,
        "encoder/layers_3/attention/query/kernel": (model * 64) ** -0.5,
        "encoder/layers_3/attention/key/kernel": model**-0.5,
        "encoder/layers_3/attention/value/kernel": model**-0.5,
        "encoder/layers_3/attention/out/kernel": heads**-0.5,
        "encoder/layers_3/mlp/wi_0/kernel": model**-0.5,
        "encoder/layers_3/mlp/wo/kernel": inner**-0.5,
        "projection/kernel": model**-0.5,
        "encoder/relpos_bias/rel_embedding": (2 / (6 + 32)) ** 0.5,
    }
    for name, deviation in expected.items():
        weight = initial_weight(config, name, seed=1)
        assert weight.dtype == np.float32
        tolerance = 0.15 if weight.size < 1000 else 0.01
        assert weight.std() == pytest.approx(deviation, rel=tolerance), name
        assert abs(weight.mean()) < 5 * deviation / math.sqrt(weight.size), name
    wi = initial_weight(config, "encoder/layers_3/mlp/wi_0/kernel", seed=1)
    assert np.abs(wi).max() <= 2 / 0.8796 * model**-0.5
    assert (initial_weight(config, "encoder/encoder_norm/scale", seed=1) == 1).all()


def test_initial_weights_follow_the_seed_and_differ_between_layers():
    config = ENCODER_PRESETS["mt5_tiny"]
    names = [f"encoder/layers_{layer}/attention/key/kernel" for layer in range(2)]
    first, again = (initial_weight(config, names[0], seed=5) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    for other in (initial_weight(config, names[1], seed=5), initial_weight(config, names[0], seed=6)):
        assert np.abs(first - other).max() > 0.01
