"""Two replicas give the loss and gradients of one device with the global batch; XLA compiles the step."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from xtr_tf.config.training import RunConfig
from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.training import LossConfig, TrainingConfig
from xtr_tf.training.data.batches import Batch
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.strategy import make_strategy
from xtr_tf.training.step import TrainingStep

B, H, n, m = 8, 1, 6, 10
encoder_config = EncoderConfig(
    vocabulary_size=300, model_dim=128, feed_forward_dim=32, num_layers=1, num_heads=2, head_dim=16,
    dropout=0.0, projection_dim=16,
)

def setting(distribution, **training):
    config = RunConfig(
        encoder=encoder_config,
        loss=LossConfig(k_train=20, distillation_weight=0.5),
        training=TrainingConfig(batch_size=B, distribution=distribution, gradient_clip=1.0, **training),
    )
    strategy = make_strategy(config.training)
    with strategy.scope():
        encoder = Encoder(encoder_config)
        optimizer = make_optimizer(config.training, encoder.trainable_variables)
    return strategy, encoder, TrainingStep(config, strategy, encoder, optimizer)

rng = np.random.default_rng(0)
def ids(rows, length):
    present = np.arange(length) < rng.integers(2, length + 1, [rows, 1])
    return (rng.integers(3, 300, [rows, length]) * present).astype("i4")
queries, positives, negatives = ids(B, n), ids(B, m), ids(B * H, m)
keys = rng.integers(1, 9, [B * (1 + H), 3, 2]).astype("i4")
keys[:, 1:] = 0  # ids that coincide now and then: some false negatives
teacher = rng.normal(size=[B, 1 + H]).astype("f")

def batch(rows):
    count = len(rows)
    negative_rows = [B + row * H + h for row in rows for h in range(H)]
    return Batch(*map(tf.constant, (
        queries[rows], np.concatenate([positives[rows], negatives[[r - B for r in negative_rows]]]),
        keys[rows][:, None], np.concatenate([keys[rows], keys[negative_rows]]), teacher[rows],
    )))

whole = batch(list(range(B)))
parts = [batch(list(range(4))), batch(list(range(4, 8)))]

def dense(gradients):
    return [tf.convert_to_tensor(gradient) for gradient in gradients]

def total(strategy, metrics):
    return {k: float(strategy.reduce(tf.distribute.ReduceOp.SUM, v, axis=None)) for k, v in metrics.items()}

strategy, encoder, step = setting("single")
metrics, gradients = tf.function(step.gradients, autograph=False)(whole)
one = {k: float(v) for k, v in metrics.items()}, [g.numpy() for g in dense(gradients)]
batches = iter(tf.data.Dataset.from_tensors(whole).repeat())
step.run_steps(batches, 1)
one_weights = encoder.get_canonical_weights()

def differences(before, after):
    return max(float(abs(before[name] - after[name]).max()) for name in before)

def compare(kind, two, encoder):
    print(json.dumps({
        "kind": kind, "one": one[0], "two": two[0],
        "gradients": [float(abs(a - b).max()) for a, b in zip(one[1], two[1])],
        "scale": [float(abs(a).max()) for a in one[1]],
        "weights": differences(one_weights, encoder.get_canonical_weights()),
    }))

strategy, encoder, step = setting("mirrored")
assert strategy.num_replicas_in_sync == 2
distributed = strategy.experimental_distribute_values_from_function(
    lambda context: parts[context.replica_id_in_sync_group]
)
run = tf.function(lambda batch: strategy.run(step.gradients, args=(batch,)), autograph=False)
metrics, gradients = run(distributed)
two = total(strategy, metrics), [
    tf.convert_to_tensor(strategy.experimental_local_results(g)[0]).numpy() for g in gradients
]
first, second = (tf.data.Dataset.from_tensors(part) for part in parts)
stream = iter(strategy.distribute_datasets_from_function(lambda _: first.concatenate(second)))
updated = step.run_steps(stream, 1)
compare("mirrored", two, encoder)

strategy, encoder, step = setting("single")
step.compiled = True

@tf.function(autograph=False, jit_compile=True)
def compiled(batch):
    # One program: XLA computes the gradients, which both need, once.
    metrics, gradients = step.gradients(batch)
    step.update(batch)
    return metrics, gradients

metrics, gradients = compiled(whole)
two = {k: float(v) for k, v in metrics.items()}, [g.numpy() for g in gradients]
compare("xla", two, encoder)
"""


@pytest.fixture(scope="module")
def measurements() -> dict[str, dict]:
    """What each kind of step gave next to one device with the global batch."""
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr[-3000:]
    lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    return {line["kind"]: line for line in lines}


@pytest.mark.parametrize("kind", ["mirrored", "xla"])
def test_agrees_with_one_device_and_the_global_batch(measurements, kind):
    """Losses, statistics, gradients and the weights after one update."""
    measured = measurements[kind]
    assert measured["one"].keys() == measured["two"].keys()
    for name, value in measured["one"].items():
        assert measured["two"][name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert min(measured["scale"]) > 0
    np.testing.assert_allclose(measured["gradients"], 0, atol=5e-6)
    assert measured["weights"] < 1e-5
