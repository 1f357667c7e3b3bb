"""Our encoder against `transformers`, on files that tools/parity/write_golden.py wrote.

`make parity` points XTR_TF_GOLDEN to freshly written ones with real shapes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors import safe_open

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder

TOLERANCE = 2e-5
FOLDER = Path(os.environ.get("XTR_TF_GOLDEN", Path(__file__).parents[1] / "golden"))
FILES = sorted(FOLDER.glob("*.safetensors"))
OUTPUTS = ("ids", "positions", "hidden_states", "vectors")


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def golden(request):
    with safe_open(request.param, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    outputs = {name: tensors.pop(name) for name in OUTPUTS}
    encoder = Encoder(EncoderConfig(**json.loads(metadata["config"])), seed=None)
    encoder.set_canonical_weights(tensors)
    return encoder, outputs, metadata


def test_there_are_golden_files_for_both_feed_forward_layers_and_they_say_what_wrote_them():
    metadata = []
    for path in FILES:
        with safe_open(path, framework="numpy") as file:
            metadata.append(file.metadata())
    assert {json.loads(entry["config"])["feed_forward"] for entry in metadata} == {"gated-gelu", "relu"}
    assert {entry["model"] for entry in metadata} == {"MT5EncoderModel", "T5EncoderModel"}
    for entry in metadata:
        assert json.loads(entry["versions"]).keys() == {"python", "torch", "transformers"}


def test_hidden_states_equal_those_of_transformers(golden):
    encoder, outputs, _ = golden
    hidden = encoder.hidden_states(tf.constant(outputs["ids"])).numpy()[:, outputs["positions"]]
    is_token = (outputs["ids"] != 0)[:, outputs["positions"]]
    assert np.abs(hidden - outputs["hidden_states"])[is_token].max() <= TOLERANCE


def test_vectors_equal_those_of_transformers_and_are_zero_at_pads(golden):
    encoder, outputs, _ = golden
    vectors = encoder(tf.constant(outputs["ids"])).numpy()[:, outputs["positions"]]
    assert np.abs(vectors - outputs["vectors"]).max() <= TOLERANCE
    assert (outputs["ids"] == 0).any()
    np.testing.assert_array_equal(vectors[(outputs["ids"] == 0)[:, outputs["positions"]]], 0)


def test_compiled_vectors_equal_those_of_transformers(golden):
    encoder, outputs, _ = golden
    compiled = tf.function(encoder, jit_compile=True)
    vectors = compiled(tf.constant(outputs["ids"])).numpy()[:, outputs["positions"]]
    assert np.abs(vectors - outputs["vectors"]).max() <= TOLERANCE
