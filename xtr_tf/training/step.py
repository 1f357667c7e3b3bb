"""One update of the weights on every replica, and loops of updates that stay on the devices.

On a TPU, and wherever XLA compiles the step, shapes are static and the gradient of the embedding is dense,
because XLA has no `tf.unique`. Elsewhere that gradient stays sparse.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import keras
import tensorflow as tf
from keras import ops

from xtr_tf.config.training import RunConfig, TrainingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.training.batch_loss import statistic_names
from xtr_tf.training.data.batches import Batch, MixedBatch, TaughtTexts
from xtr_tf.training.gradients import (
    Gradient,
    add,
    chunked_gradients,
    scale,
    sum_over_replicas,
    taught_gradients,
    whole_batch_gradients,
)

Metrics = dict[str, tf.Tensor]
StepBatch = Batch | TaughtTexts | MixedBatch
Share = tuple[Metrics, list[Gradient]]


class TrainingStep:
    """The training of an encoder as functions of a stream of batches.

    Args:
        config: Configuration of the run.
        strategy: Strategy in whose scope the encoder's and the optimiser's variables were created.
        encoder: Encoder to train.
        optimizer: Any Keras optimiser, built for the encoder's variables. Its `iterations` count the steps.

    Raises:
        InputError: The batch cannot be divided evenly by devices or by chunks.
    """

    def __init__(
        self,
        config: RunConfig,
        strategy: tf.distribute.Strategy,
        encoder: Encoder,
        optimizer: keras.optimizers.Optimizer,
    ) -> None:
        self._config = config
        self._strategy = strategy
        self._encoder = encoder
        self._optimizer = optimizer
        self._variables = [variable.value for variable in encoder.trainable_variables]
        self._chunks = _chunk_count(config, strategy)
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        compiles = config.training.jit_compile and not is_tpu
        # XLA has no collectives on CPUs, and its top-k there is slower than TensorFlow's own. So only the
        # encoder is compiled, and the whole step only if there is a single accelerator.
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

    def gradients(self, batch: StepBatch) -> Share:
        """Computes the gradients of the global batch before clipping, in a replica context.

        Args:
            batch: This replica's batch.

        Returns:
            This replica's share of the metrics, and the gradients summed over replicas.
        """
        config, context = self._config, tf.distribute.get_replica_context()
        step = ops.cast(self._optimizer.iterations, "int32")
        base = tf.stack([tf.constant(config.training.seed, tf.int32), step])
        seed = tf.random.experimental.stateless_fold_in(base, context.replica_id_in_sync_group)
        examples, taught = _parts(batch)
        shares = []
        if examples is not None:
            shares.append(self._example_share(examples, seed))
        if taught is not None:
            # Folded again, so that the dropout of examples is the same with and without taught texts.
            text_seed = tf.random.experimental.stateless_fold_in(seed, 1)
            shares.append(self._taught_share(taught, text_seed))
        metrics, gradients = functools.reduce(_add_shares, shares)
        if self.compiled:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        gradients = [sum_over_replicas(gradient) for gradient in gradients]
        return metrics, gradients

    def _example_share(self, batch: Batch, seed: tf.Tensor) -> Share:
        arguments = (self._encode, self._variables, self._config.loss, batch, seed)
        if self._chunks > 1:
            result, gradients = chunked_gradients(*arguments, self._chunks, self.compiled)
        else:
            result, gradients = whole_batch_gradients(*arguments, self.compiled)
        tokens = _count_tokens(batch.query_ids, batch.document_ids)
        return {"loss": result.loss, **result.statistics, "tokens": tokens}, gradients

    def _taught_share(self, texts: TaughtTexts, seed: tf.Tensor) -> Share:
        weight = self._config.loss.teacher_vector_weight
        distance, gradients = taught_gradients(self._encode, self._variables, texts, seed, weight)
        metrics = {"loss": weight * distance, "teacher_distance": distance}
        return {**metrics, "tokens": _count_tokens(texts.ids)}, gradients

    def _encode_training(self, ids: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return self._encoder(ids, training=True, seed=seed)

    def update(self, batch: StepBatch) -> Metrics:
        """Updates the weights in a replica context.

        Args:
            batch: This replica's batch.

        Returns:
            This replica's share of the metrics.
        """
        metrics, gradients = self.gradients(batch)
        replicas = float(self._strategy.num_replicas_in_sync)
        norm = tf.linalg.global_norm(gradients)
        if clip := self._config.training.gradient_clip:
            gradients, _ = tf.clip_by_global_norm(gradients, clip, use_norm=norm)
        rate = ops.convert_to_tensor(self._optimizer.learning_rate)
        self._apply(gradients, replicas)
        # These are the same on every replica, and metrics are summed over replicas.
        return {**metrics, "gradient_norm": norm / replicas, "learning_rate": rate / replicas}

    def _apply(self, gradients: list[Gradient], replicas: float) -> None:
        if replicas > 1:
            # Keras sums over replicas again, which cannot be turned off. Clipping needs the sum earlier.
            gradients = [scale(gradient, 1 / replicas) for gradient in gradients]
        if not getattr(self._optimizer, "takes_sparse_gradients", False):
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._optimizer.apply(gradients, self._encoder.trainable_variables)

    def _run_steps(self, iterator: Iterator[StepBatch], count: int) -> Metrics:
        """Makes `count` updates. Returns their metrics over the global batch, `[count]` each."""

        def one_step(_: tf.Tensor) -> Metrics:
            metrics = self._strategy.run(self._replica_update, args=(next(iterator),))
            return {
                name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                for name, value in metrics.items()
            }

        if count == 1:
            return {name: value[None] for name, value in one_step(tf.constant(0)).items()}
        data = self._config.data
        names = ["loss", "tokens", "gradient_norm", "learning_rate"]
        names += statistic_names(self._config.loss) if data.train else []
        names += ["teacher_distance"] if data.teacher_vectors else []
        signature = dict.fromkeys(names, tf.float32)
        return tf.map_fn(one_step, tf.range(count), fn_output_signature=signature, parallel_iterations=1)


def batch_size_per_replica(config: TrainingConfig, strategy: tf.distribute.Strategy) -> int:
    """Returns the number of queries per replica.

    Args:
        config: Settings with the size of the global batch.
        strategy: Strategy of the run.

    Returns:
        Queries per replica.

    Raises:
        InputError: The batch cannot be divided evenly.
    """
    return per_replica("training.batch_size", config.batch_size, strategy)


def per_replica(setting: str, size: int, strategy: tf.distribute.Strategy) -> int:
    """Divides a size of the global batch by the number of replicas.

    Args:
        setting: Key of the setting, for the message.
        size: Size for the global batch.
        strategy: Strategy of the run.

    Returns:
        The size per replica.

    Raises:
        InputError: The size cannot be divided evenly.
    """
    replicas = strategy.num_replicas_in_sync
    if size % replicas:
        raise InputError(f"`{setting}` must be a multiple of the {replicas} devices. Received: {size}.")
    return size // replicas


def _parts(batch: StepBatch) -> tuple[Batch | None, TaughtTexts | None]:
    if isinstance(batch, MixedBatch):
        return batch.examples, batch.taught
    return (None, batch) if isinstance(batch, TaughtTexts) else (batch, None)


def _add_shares(first: Share, second: Share) -> Share:
    metrics = {**first[0], **second[0]}
    for name in ("loss", "tokens"):
        metrics[name] = first[0][name] + second[0][name]
    return metrics, [add(*pair) for pair in zip(first[1], second[1], strict=True)]


def _count_tokens(*ids: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.add_n([tf.math.count_nonzero(part) for part in ids]), tf.float32)


def _chunk_count(config: RunConfig, strategy: tf.distribute.Strategy) -> int:
    batch_size = batch_size_per_replica(config.training, strategy)
    chunk = config.training.gradient_cache_chunk or batch_size
    if batch_size % chunk:
        raise InputError(
            f"`training.gradient_cache_chunk` must divide the {batch_size} queries of a device. "
            f"Received: {chunk}."
        )
    return batch_size // chunk
