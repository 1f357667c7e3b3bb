"""One replica's training step at mxtr_base's shapes, as an XLA program that is not run.

    python program.py REPLICAS HLO_FILE
    python program.py example HLO_FILE LAYERS [KEY=VALUE...]

CPUs have no collectives under XLA. Other replicas would send tensors of the same size as this one's, so
gathering becomes repeating: the program computes what a replica computes, and exchanges nothing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf

from tfx_pipeline.config import load_pipeline_config
from xtr_tf.config.presets import RUN_PRESETS
from xtr_tf.config.training import RunConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training import batch_loss
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.losses import maxsim
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.step import TrainingStep

QUERY_LENGTH, DOCUMENT_LENGTH = 32, 512
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "configs" / "vertex_pipeline.yaml"


def replica_config(replicas: int, **encoder: Any) -> RunConfig:
    """mxtr_base in bfloat16 with one replica's share of its batch.

    Args:
        replicas: Devices that share the batch.
        **encoder: Settings of the encoder that are not mxtr_base's.
    """
    preset = RUN_PRESETS["mxtr_base"]
    size = preset.training.batch_size // replicas
    return dataclasses.replace(
        preset,
        encoder=dataclasses.replace(preset.encoder, dtype="mixed_bfloat16", **encoder),
        training=dataclasses.replace(preset.training, batch_size=size, dtype="mixed_bfloat16"),
    )


def example_config(layers: int, overrides: Sequence[str] = ()) -> tuple[RunConfig, int]:
    """Returns one replica's share of the example for Vertex AI with some of its layers, and its replicas.

    Args:
        layers: Number of layers.
        overrides: Changes of the configuration, as `KEY=VALUE`.
    """
    pipeline = load_pipeline_config(_EXAMPLE, overrides)
    run, topology = pipeline.run, pipeline.vertex.training[0].tpu_topology
    replicas = math.prod(map(int, topology.split("x")))
    training = dataclasses.replace(run.training, batch_size=run.training.batch_size // replicas)
    encoder = dataclasses.replace(run.encoder, dtype=run.training.dtype, num_layers=layers)
    return dataclasses.replace(run, encoder=encoder, training=training), replicas


def trace(config: RunConfig, replicas: int, one_block: bool = False, stage: str = "hlo") -> str:
    """The HLO of a replica's update.

    Args:
        config: The result of `replica_config`.
        replicas: Number of replicas whose documents each query is compared with.
        one_block: Whether to compute all similarities at once. XLA counts the body of a loop once, however
            often it runs, so the operations must be counted in the form without a loop.
        stage: `hlo` as it comes from TensorFlow, `optimized_hlo` as it is compiled for this CPU.

    Returns:
        The program as text.
    """
    encoder = Encoder(config.encoder, seed=None)
    optimizer = make_optimizer(config.training, encoder.trainable_variables)
    step = TrainingStep(config, tf.distribute.get_strategy(), encoder, optimizer)
    step.compiled = True
    size = config.training.batch_size
    documents = size * (1 + config.data.hard_negatives)
    batch = Batch(
        tf.ones([size, QUERY_LENGTH], tf.int32),
        tf.ones([documents, DOCUMENT_LENGTH], tf.int32),
        tf.zeros([size, 1, 3, 2], tf.int32),
        tf.zeros([documents, 3, 2], tf.int32),
        tf.zeros([size, 1 + config.data.hard_negatives]),
    )
    with _as_on_a_tpu(replicas, one_block):
        program = tf.function(step.update, autograph=False, jit_compile=True)
        return str(program.experimental_get_compiler_ir(batch)(stage=stage))


@contextmanager
def _as_on_a_tpu(replicas: int, one_block: bool) -> Iterator[None]:
    elements = {"accelerator": 2**62} if one_block else maxsim._BLOCK_ELEMENTS

    def gather(tensor: tf.Tensor) -> tf.Tensor:
        return tf.tile(tensor, [replicas, *[1] * (tensor.shape.rank - 1)])

    with (
        mock.patch.object(maxsim, "_device_kind", return_value="accelerator"),
        mock.patch.object(maxsim, "_BLOCK_ELEMENTS", elements),
        mock.patch.object(batch_loss, "gather_over_replicas", gather),
    ):
        yield


def count_blocks(hlo: str, dim: int) -> int:
    """Returns how often the loop over blocks of similarities runs: once per stacked block."""
    loops = [line for line in hlo.splitlines() if " while(" in line]
    stacked = {int(count) for line in loops for count in re.findall(rf"f32\[(\d+),\d+,{dim}\]", line)}
    if len(stacked) != 1:
        raise ValueError(f"The loops must go over one stack of blocks. Received: {sorted(stacked)}.")
    return stacked.pop()


def main() -> None:
    """Writes a program whose operations can be counted, and prints the blocks of the real one."""
    out = Path(sys.argv[2])
    if sys.argv[1] == "example":
        out.write_text(trace(*example_config(int(sys.argv[3]), sys.argv[4:])))
        return
    replicas = int(sys.argv[1])
    config = replica_config(replicas)
    out.write_text(trace(config, replicas, one_block=True))
    shallow = dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, num_layers=1))
    blocks = count_blocks(trace(shallow, replicas), config.encoder.projection_dim)
    print(json.dumps({"blocks": blocks}))


if __name__ == "__main__":
    main()
