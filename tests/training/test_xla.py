"""XLA takes the whole step at the shapes that mxtr_base is trained with on a TPU."""

from __future__ import annotations

import dataclasses
import re

import pytest
import tensorflow as tf

from xtr_tf.config.presets import RUN_PRESETS
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.losses import maxsim
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.step import TrainingStep

REPLICAS, QUERY_LENGTH, DOCUMENT_LENGTH = 8, 32, 512


@pytest.mark.slow
def test_the_whole_step_is_one_program_of_static_shapes(monkeypatch):
    """The share of one of eight replicas, with few and narrow layers; nothing is run."""
    monkeypatch.setattr(maxsim, "_device_kind", lambda: "accelerator")
    preset = RUN_PRESETS["mxtr_base"]
    encoder_config = dataclasses.replace(
        preset.encoder, num_layers=1, model_dim=64, feed_forward_dim=64, num_heads=1, vocabulary_size=512
    )
    size = preset.training.batch_size // REPLICAS
    training = dataclasses.replace(preset.training, batch_size=size, dtype="mixed_bfloat16")
    encoder_config = dataclasses.replace(encoder_config, dtype="mixed_bfloat16")
    config = dataclasses.replace(preset, encoder=encoder_config, training=training)
    encoder = Encoder(encoder_config)
    optimizer = make_optimizer(training, encoder.trainable_variables)
    step = TrainingStep(config, tf.distribute.get_strategy(), encoder, optimizer)
    step.compiled = True
    documents = size * (1 + config.data.hard_negatives)
    batch = Batch(
        tf.ones([size, QUERY_LENGTH], tf.int32),
        tf.ones([documents, DOCUMENT_LENGTH], tf.int32),
        tf.zeros([size, 1, 3, 2], tf.int32),
        tf.zeros([documents, 3, 2], tf.int32),
        tf.zeros([size, 1 + config.data.hard_negatives]),
    )
    program = tf.function(step.update, autograph=False, jit_compile=True)
    hlo = program.experimental_get_compiler_ir(batch)(stage="hlo")
    assert "<=" not in "".join(re.findall(r"\w+\[[^\]]*\]", hlo))  # sizes that only a run would tell
    rows = size * QUERY_LENGTH
    assert re.search(rf"f32\[{rows},{documents * DOCUMENT_LENGTH}\]\S* dot\(", hlo)
    assert "bf16[" in hlo
