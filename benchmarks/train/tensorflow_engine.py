"""Our training step as an engine of the benchmark. Runs in .venv."""

from __future__ import annotations

import sys

import tensorflow as tf
from engine_loop import peak_mib, read_batches, serve
from safetensors.numpy import load_file
from workload import BATCH_SIZE, K_TRAIN, SHAPES

from xtr_tf.config.training import LossConfig, RunConfig, TrainingConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.batch_loss import batch_loss
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.step import TrainingStep


def main() -> None:
    """Serves: `tensorflow_engine.py SHAPE WEIGHTS BATCHES THREADS`."""
    imported_mib = peak_mib()
    shape, weights, path, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    config = RunConfig(
        encoder=SHAPES[shape].config,
        loss=LossConfig(k_train=K_TRAIN),
        training=TrainingConfig(batch_size=BATCH_SIZE, warmup_steps=0),
    )
    encoder = Encoder(config.encoder, seed=None)
    encoder.set_canonical_weights(load_file(weights))
    optimizer = make_optimizer(config.training, encoder.trainable_variables)
    step = TrainingStep(config, tf.distribute.get_strategy(), encoder, optimizer)
    batches = [_batch(queries, documents) for queries, documents in read_batches(path)]
    stream = iter(_stream(batches))

    def update(_: int) -> float:
        return float(step.run_steps(stream, 1)["loss"].numpy()[0])

    def loss() -> float:
        batch = batches[0]
        vectors = encoder(batch.query_ids), encoder(batch.document_ids)
        return float(batch_loss(config.loss, batch, *vectors).loss)

    versions = f"tensorflow {tf.__version__}, {threads} threads"
    serve(imported_mib, update, loss, len(batches), versions)


def _batch(queries: tf.Tensor, documents: tf.Tensor) -> Batch:
    return Batch(
        tf.constant(queries),
        tf.constant(documents),
        tf.zeros([BATCH_SIZE, 1, 3, 2], tf.int32),
        tf.zeros([BATCH_SIZE, 3, 2], tf.int32),
        tf.zeros([BATCH_SIZE, 1]),
    )


def _stream(batches: list[Batch]) -> tf.data.Dataset:
    """The batches again and again, of any length, as `batch_dataset` gives them without XLA."""
    ids = tf.TensorSpec([BATCH_SIZE, None], tf.int32)
    rest = [tf.TensorSpec.from_tensor(tensor) for tensor in batches[0][2:]]
    signature = Batch(ids, ids, *rest)
    return (
        tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature).repeat().prefetch(2)
    )


if __name__ == "__main__":
    main()
