"""One update of the weights on every replica, and loops of them that stay on the devices.

Where devices differ: on a TPU (and wherever XLA compiles the step) shapes are static and the
embedding's gradient is dense, for XLA has no `tf.unique`; elsewhere that gradient stays sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from xtr_tf.config.schema import LossConfig, RunConfig, TrainingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.batch_loss import BatchLoss, batch_loss, statistic_names
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.optimizers import (
    Gradient,
    Optimizer,
    combine_duplicates,
    global_norm,
    learning_rate,
    scale,
)
from xtr_tf.training.strategy import gather_over_replicas

Metrics = dict[str, tf.Tensor]


class TrainingStep:
    """The training of an encoder as functions of a stream of batches.

    Args:
        config: The run's configuration.
        strategy: Where the encoder's and the optimiser's variables were created.
        encoder: What is trained.
        optimizer: Updates its weights.
        step: int64 variable, updates made so far.
    """

    def __init__(
        self,
        config: RunConfig,
        strategy: tf.distribute.Strategy,
        encoder: Encoder,
        optimizer: Optimizer,
        step: tf.Variable,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._encoder = encoder
        self._optimizer = optimizer
        self._step = step
        self._variables = [variable.value for variable in encoder.trainable_variables]
        self._chunks = _chunk_count(config, strategy)
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        compiles = config.training.jit_compile and not is_tpu
        # XLA has no collectives on CPUs, and its top-k there is slower than TensorFlow's own: compile
        # the encoder alone, and the whole step only where one accelerator makes it.
        whole = (
            compiles and strategy.num_replicas_in_sync == 1 and bool(tf.config.list_physical_devices("GPU"))
        )
        self.compiled = is_tpu or whole
        self._encode = (
            tf.function(self._encode_training, autograph=False, jit_compile=True)
            if (compiles and not whole)
            else self._encode_training
        )
        replica_update = tf.function(self.update, autograph=False, jit_compile=True) if whole else self.update
        self._replica_update = replica_update
        self.run_steps = tf.function(self._run_steps, autograph=False)

    def gradients(self, batch: Batch) -> tuple[Metrics, list[Gradient]]:
        """A replica's metrics and the gradients of the global batch, before clipping."""
        config, context = self._config, tf.distribute.get_replica_context()
        base = tf.stack([tf.constant(config.training.seed, tf.int32), tf.cast(self._step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(base, context.replica_id_in_sync_group)
        arguments = (self._encode, self._variables, config.loss, batch, seed)
        if self._chunks > 1:
            result, gradients = chunked_gradients(*arguments, self._chunks, self.compiled)
        else:
            result, gradients = whole_batch_gradients(*arguments, self.compiled)
        if self.compiled:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if context.num_replicas_in_sync > 1:
            gradients = [_sum_over_replicas(context, gradient) for gradient in gradients]
        gradients = [combine_duplicates(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
        tokens = tf.math.count_nonzero(batch.query_ids) + tf.math.count_nonzero(batch.document_ids)
        return {"loss": result.loss, **result.statistics, "tokens": tf.cast(tokens, tf.float32)}, gradients

    def _encode_training(self, ids: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return self._encoder(ids, training=True, seed=seed)

    def update(self, batch: Batch) -> Metrics:
        """Updates the weights in a replica context; returns its share of the metrics."""
        metrics, gradients = self.gradients(batch)
        replicas = float(self._strategy.num_replicas_in_sync)
        norm = global_norm(gradients)
        if clip := self._config.training.gradient_clip:
            factor = tf.minimum(1.0, clip / tf.maximum(norm, 1e-12))
            gradients = [scale(gradient, factor) for gradient in gradients]
        rate = learning_rate(self._config.training, self._step)
        self._optimizer.apply(gradients, rate, self._step)
        # The same on every replica; metrics are summed over replicas.
        return {**metrics, "gradient_norm": norm / replicas, "learning_rate": rate / replicas}

    def _run_steps(self, iterator: Iterator[Batch], count: int) -> Metrics:
        """Makes `count` updates; returns their metrics over the global batch, `[count]` each."""

        def one_step(_: tf.Tensor) -> Metrics:
            metrics = self._strategy.run(self._replica_update, args=(next(iterator),))
            self._step.assign_add(1)
            return {
                name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                for name, value in metrics.items()
            }

        if count == 1:
            return {name: value[None] for name, value in one_step(tf.constant(0)).items()}
        names = ["loss", "tokens", "gradient_norm", "learning_rate", *statistic_names(self._config.loss)]
        signature = dict.fromkeys(names, tf.float32)
        return tf.map_fn(one_step, tf.range(count), fn_output_signature=signature, parallel_iterations=1)


def _sum_over_replicas(context: tf.distribute.ReplicaContext, gradient: Gradient) -> Gradient:
    """The sum of all replicas' gradients; sparse ones are put together, rows of equal index apart."""
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = gather_over_replicas(gradient.values), gather_over_replicas(gradient.indices)
        return tf.IndexedSlices(values, indices, gradient.dense_shape)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)


def batch_size_per_replica(config: TrainingConfig, strategy: tf.distribute.Strategy) -> int:
    """Queries of one replica."""
    replicas = strategy.num_replicas_in_sync
    if config.batch_size % replicas:
        raise InputError(
            f"`training.batch_size` must be a multiple of the {replicas} devices. "
            f"Received: {config.batch_size}."
        )
    return config.batch_size // replicas


def _chunk_count(config: RunConfig, strategy: tf.distribute.Strategy) -> int:
    batch_size = batch_size_per_replica(config.training, strategy)
    chunk = config.training.gradient_cache_chunk or batch_size
    if batch_size % chunk:
        raise InputError(
            f"`training.gradient_cache_chunk` must divide the {batch_size} queries of a device. "
            f"Received: {chunk}."
        )
    return batch_size // chunk


Encode = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def whole_batch_gradients(
    encode: Encode,
    variables: Sequence[tf.Variable],
    loss: LossConfig,
    batch: Batch,
    seed: tf.Tensor,
    static_shapes: bool = True,
) -> tuple[BatchLoss, list[Gradient]]:
    """Encodes and differentiates the batch at once.

    Args:
        encode: From ids `[rows, length]` and a dropout seed `[2]` to vectors.
        variables: What to differentiate with respect to.
        loss: The kind of loss.
        batch: This replica's batch.
        seed: Of dropout, `[2]` int32, equal to no other replica's or step's.
        static_shapes: Whether XLA compiles the loss, see `batch_loss`.
    """
    query_seed, document_seed = _seeds(seed)
    with tf.GradientTape() as tape:
        queries = encode(batch.query_ids, query_seed)
        documents = encode(batch.document_ids, document_seed)
        result = batch_loss(loss, batch, queries, documents, static_shapes)
    return result, tape.gradient(result.loss, variables)


def chunked_gradients(
    encode: Encode,
    variables: Sequence[tf.Variable],
    loss: LossConfig,
    batch: Batch,
    seed: tf.Tensor,
    chunks: int,
    static_shapes: bool = True,
) -> tuple[BatchLoss, list[Gradient]]:
    """The same in `chunks` chunks, which must divide the batch."""
    query_chunks, document_chunks = (
        tf.reshape(ids, [chunks, ids.shape[0] // chunks, -1]) for ids in (batch.query_ids, batch.document_ids)
    )

    def encode_chunk(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        query_seed, document_seed = _seeds(tf.random.experimental.stateless_fold_in(seed, number))
        queries = encode(query_chunks[number], query_seed)
        return queries, encode(document_chunks[number], document_seed)

    encoded = tf.map_fn(
        encode_chunk,
        tf.range(chunks),
        fn_output_signature=(tf.float32, tf.float32),
        parallel_iterations=1,
    )
    queries, documents = (tf.reshape(vectors, [-1, *_row_shape(vectors)]) for vectors in encoded)
    with tf.GradientTape() as tape:
        tape.watch([queries, documents])
        result = batch_loss(loss, batch, queries, documents, static_shapes)
    pulls = [
        tf.reshape(pull, tf.shape(vectors))
        for pull, vectors in zip(tape.gradient(result.loss, [queries, documents]), encoded, strict=True)
    ]

    def chunk_gradients(number: tf.Tensor) -> list[Gradient]:
        with tf.GradientTape() as tape:
            vectors = encode_chunk(number)
        return tape.gradient(vectors, variables, output_gradients=[pull[number] for pull in pulls])

    return result, _sum_over(chunks, chunk_gradients, variables)


def _seeds(seed: tf.Tensor) -> list[tf.Tensor]:
    return tf.unstack(tf.random.experimental.stateless_split(seed, 2))


def _row_shape(vectors: tf.Tensor) -> list[Any]:
    dynamic = tf.shape(vectors)
    return [dynamic[i] if vectors.shape[i] is None else vectors.shape[i] for i in (2, 3)]


def _sum_over(
    chunks: int, gradients_of: Callable[[tf.Tensor], list[Gradient]], variables: Sequence[tf.Variable]
) -> list[Gradient]:
    """Sums the gradients of all chunks, one after the other; those of embeddings stay sparse."""
    first = gradients_of(tf.constant(0))
    sparse = [isinstance(gradient, tf.IndexedSlices) for gradient in first]

    def visit(number: tf.Tensor, sums: list[Any]) -> tuple[tf.Tensor, list[Any]]:
        added = []
        for total, gradient, is_sparse in zip(sums, gradients_of(number), sparse, strict=True):
            if is_sparse:
                values, indices = total
                added.append((values.write(number, gradient.values), indices.write(number, gradient.indices)))
            else:
                added.append(total + gradient)
        return number + 1, added

    start = [
        (
            tf.TensorArray(tf.float32, chunks).write(0, gradient.values),
            tf.TensorArray(gradient.indices.dtype, chunks).write(0, gradient.indices),
        )
        if is_sparse
        else gradient
        for gradient, is_sparse in zip(first, sparse, strict=True)
    ]
    _, sums = tf.while_loop(lambda number, _: number < chunks, visit, (1, start), parallel_iterations=1)
    return [
        tf.IndexedSlices(total[0].concat(), total[1].concat(), tf.shape(variable)) if is_sparse else total
        for total, is_sparse, variable in zip(sums, sparse, variables, strict=True)
    ]
