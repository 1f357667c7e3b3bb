"""Training from a configuration to an encoder folder. Read it from top to bottom.

`train` is the run. Its parts follow in the order in which it calls them. `step.py` has a single update, and
`batch_loss.py` the loss with its k_train.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.training import RunConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_background, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.background import piece_shares
from xtr_tf.training.data.batches import MixedBatch, batch_dataset, taught_dataset
from xtr_tf.training.data.sampling import TrainingData
from xtr_tf.training.data.teacher_vectors import TaughtStream
from xtr_tf.training.data.tokenized import TokenizedData
from xtr_tf.training.data.tokenizing import write_tokenized
from xtr_tf.training.dev_evaluation import DevEvaluation, Encode
from xtr_tf.training.health import Health
from xtr_tf.training.hosts import Hosts
from xtr_tf.training.optimizers import make_optimizer
from xtr_tf.training.progress import InterruptionFlag, TrainingInterruptedError, TrainingProgress
from xtr_tf.training.run_folder import CheckpointStore, RunRecord
from xtr_tf.training.step import TrainingStep, batch_size_per_replica, per_replica
from xtr_tf.training.strategy import hosts_run_python, make_strategy


def train(config: RunConfig, quiet: bool = False, publish: Callable[[Path], None] | None = None) -> Path:
    """Trains an encoder, continuing from the output folder's latest checkpoint if there is one.

    The order of the data, dropout and initial weights are functions of the seed and the step. A run that is
    stopped and continued is therefore the same as one that was not stopped.

    Args:
        config: Configuration of the run.
        quiet: Whether to hide progress. Curves are written anyway.
        publish: Called with the encoder's folder, by the process that wrote it, before any process returns.

    Returns:
        The folder of the trained encoder: the best on the development sets, or the last if there are none.

    Raises:
        InputError: The configuration or the data cannot be used, or the run broke down.
        TrainingInterruptedError: A signal stopped the run. A checkpoint was written.

    Example:
    ```python
    directory = train(load_config("examples/configs/atlas_tiny.yaml"))
    encoder, tokenizer = load_encoder(directory)
    ```
    """
    settings = config.training
    strategy = make_strategy(settings)
    hosts = Hosts(strategy)
    chief = hosts.is_chief
    record = RunRecord(Path(settings.output))
    with hosts.together():
        if chief:
            record.start(config)

    with strategy.scope():
        encoder, tokenizer = initial_encoder(config)
        optimizer = make_optimizer(settings, encoder.trainable_variables)
    with hosts.together():
        data = _open_data(config, tokenizer, encoder.config.projection_dim)
        if not hosts_run_python(strategy):
            data = _without_python(data, config, tokenizer, record.tokenized)
        dev = DevEvaluation(config.data, tokenizer, settings.dev_k_prime) if chief else None

    # Resume: these variables are everything that an update changes.
    state = tf.train.Checkpoint(
        weights={name: variable.value for name, variable in encoder.canonical_variables().items()},
        optimizer=[variable.value for variable in optimizer.variables],
    )
    keep = settings.keep_checkpoints
    store = CheckpointStore(record.checkpoints, state, keep, hosts.checkpoint_options)
    if latest := store.latest():
        store.restore(latest)
    done = int(optimizer.iterations.numpy())
    hosts.require_same_step(done, settings.output)

    training_step = TrainingStep(config, strategy, encoder, optimizer)
    batches = iter(_distributed_batches(config, strategy, data, tokenizer, range(done, settings.steps)))
    encode = _inference(strategy, encoder)
    weights = [variable.value for variable in encoder.trainable_variables]
    health = Health(record, store, weights, data.examples, settings.batch_size, chief)

    progress = TrainingProgress(record.curves, settings.steps, done, settings.log_every, chief, quiet)
    with InterruptionFlag() as interruption, progress:
        while done < settings.steps:
            count = _steps_to_next_event(config, done)
            metrics = {name: v.numpy() for name, v in training_step.run_steps(batches, count).items()}
            for offset in range(count):
                done += 1
                values = {name: float(series[offset]) for name, series in metrics.items()}
                health.check_step(done, values)
                progress.update(done, values)

            metric = math.nan
            last = done == settings.steps
            evaluates = bool(config.data.dev) and (done % settings.evaluate_every == 0 or last)
            due = evaluates or done % settings.checkpoint_every == 0 or last
            if due:
                health.check_weights(done)
            if dev and evaluates:
                measured = dev(encode)
                metric = measured[settings.dev_metric]
                record.add_dev_metrics(done, measured)
                progress.show_evaluation(done, measured)
            # A signal reaches one process, and none can step without the others, so all stop at one step.
            interrupted = hosts.any(interruption.raised)
            if interrupted and not due:
                health.check_weights(done)
            if chief and (due or interrupted):
                store.save(done, metric)
            if interrupted and not last:
                hosts.wait()
                raise TrainingInterruptedError(done)

    if chief:
        best = store.best()
        if best is not None and best.step != done:
            store.restore(best)
        background = _background(config, data.examples, tokenizer)
        save_encoder(
            record.encoder, encoder, tokenizer, "float32", True, background, dtype=config.encoder.dtype
        )
        if publish:
            publish(record.encoder)
    hosts.wait()
    return record.encoder


def initial_encoder(config: RunConfig) -> tuple[Encoder, Tokenizer]:
    """Makes an encoder with random weights of the configured shape, or loads an existing one.

    An existing encoder (imported, or trained earlier) keeps its shape, its vocabulary, and the tokenizer
    settings that the run does not set. Dropout, precision and rematerialisation come from the run.

    Args:
        config: Configuration of the run.

    Returns:
        The encoder and its tokenizer.

    Raises:
        InputError: The encoder cannot be loaded, or its vocabulary is smaller than the tokenizer's.
    """
    source = config.training.initial_encoder
    dtype = config.training.dtype or config.encoder.dtype
    if not source:
        tokenizer = Tokenizer(config.tokenizer.applied_to(TokenizerConfig()))
        if tokenizer.vocabulary_size > config.encoder.vocabulary_size:
            raise InputError(
                "`encoder.vocabulary_size` must be at least the number of the tokenizer's pieces, "
                f"{tokenizer.vocabulary_size}. "
                f"Received: {config.encoder.vocabulary_size}."
            )
        shape = dataclasses.replace(config.encoder, dtype=dtype)
        return Encoder(shape, seed=config.training.seed), tokenizer

    encoder, stored = load_encoder(source, dtype=dtype)
    said = dataclasses.replace(config.tokenizer, model="")
    tokenizer = Tokenizer(said.applied_to(stored.config), stored.model_bytes)
    wanted = dataclasses.replace(
        encoder.config, dropout=config.encoder.dropout, rematerialize=config.encoder.rematerialize
    )
    if wanted != encoder.config:
        weights = encoder.get_canonical_weights()
        encoder = Encoder(wanted, seed=None)
        encoder.set_canonical_weights(weights)
    return encoder, tokenizer


def _background(
    config: RunConfig, examples: TrainingData | TokenizedData | None, tokenizer: Tokenizer
) -> np.ndarray | None:
    """Returns how common pieces are, from the initial encoder if it knows, else from the training texts."""
    if config.training.initial_encoder:
        known = read_background(config.training.initial_encoder, tokenizer.vocabulary_size)
        if known is not None:
            return known
    return None if examples is None else piece_shares(examples, len(examples), tokenizer)


class _Data(NamedTuple):
    """The data of a run. One of the two may be missing."""

    examples: TrainingData | TokenizedData | None
    taught: TaughtStream | None


def _open_data(config: RunConfig, tokenizer: Tokenizer, dim: int) -> _Data:
    data, seed = config.data, config.training.seed
    if not data.teacher_vectors:
        return _Data(_open_examples(config, tokenizer), None)
    taught = TaughtStream(data.teacher_vectors, data.language_temperature, seed, dim, data.teacher_texts)
    return _Data(_open_examples(config, tokenizer) if data.train else None, taught)


def _open_examples(config: RunConfig, tokenizer: Tokenizer) -> TrainingData | TokenizedData:
    """Opens the examples. Refuses too few to learn from: the loss over one document is 0 for any model."""
    data: TrainingData | TokenizedData
    batch_size = config.training.batch_size
    if any(source.format == "tokenized" for source in config.data.train):
        data = TokenizedData(config.data, tokenizer.config, config.training.seed, batch_size)
    else:
        data = TrainingData(config.data, config.training.seed, batch_size)
    if len(data) < batch_size:
        raise InputError(
            "A batch needs as many usable examples as it has queries; add data, or lower "
            f"`training.batch_size`. Received: {len(data)} usable examples, batch_size {batch_size}."
        )
    if batch_size == 1 and not config.data.hard_negatives:
        raise InputError(
            "A batch of one query without hard negatives has no other document to compare with; raise "
            "`training.batch_size`, or set `data.hard_negatives`. Received: batch_size 1, hard_negatives 0."
        )
    return data


def _without_python(data: _Data, config: RunConfig, tokenizer: Tokenizer, folder: Path) -> _Data:
    """Returns the same stream for hosts that read only by TensorFlow operations. Tokenizes texts first.

    Args:
        data: Data of the run.
        config: Configuration of the run.
        tokenizer: Tokenizer of texts.
        folder: Folder for tokenized examples, which all hosts must see.

    Returns:
        Data that are read without Python.

    Raises:
        InputError: The run uses a teacher's vectors, which Python aligns with tokens.
    """
    if data.taught is not None:
        raise InputError(
            "The hosts of a TPU that is not on this machine run no Python, which aligns a teacher's vectors "
            "with tokens; train on a TPU machine itself (`training.tpu: local`), or without "
            f"`data.teacher_vectors`. Received: `training.tpu` {config.training.tpu!r}."
        )
    if not isinstance(data.examples, TrainingData):
        return data
    tokenized = dataclasses.replace(config.data, train=(write_tokenized(data.examples, tokenizer, folder),))
    return _Data(TokenizedData(tokenized, tokenizer.config, config.training.seed), None)


def _distributed_batches(
    config: RunConfig,
    strategy: tf.distribute.Strategy,
    data: _Data,
    tokenizer: Tokenizer,
    steps: range,
) -> tf.data.Dataset:
    """Makes batches. Each host reads the part of the global batch for its own devices."""
    batch_size = batch_size_per_replica(config.training, strategy)
    text_count = per_replica("data.teacher_texts", config.data.teacher_texts, strategy)
    device_count = strategy.num_replicas_in_sync
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    static = device_count > 1 or config.training.jit_compile or is_tpu

    def host_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = device_count // context.num_input_pipelines
        first = context.input_pipeline_id * local
        place = (steps, range(first, first + local), device_count, static)
        examples = data.examples and batch_dataset(data.examples, tokenizer, batch_size, *place)
        taught = data.taught and taught_dataset(data.taught, tokenizer, text_count, *place)
        if examples and taught:
            return tf.data.Dataset.zip((examples, taught)).map(MixedBatch)
        return examples or taught

    return strategy.distribute_datasets_from_function(host_batches)


def _inference(strategy: tf.distribute.Strategy, encoder: Encoder) -> Encode:
    """Encodes on the training devices. All compute the same, and one result is kept."""

    @tf.function(autograph=False, reduce_retracing=True)
    def encode(ids: tf.Tensor) -> tf.Tensor:
        vectors = strategy.run(lambda ids: encoder(ids, training=False), args=(ids,))
        return strategy.experimental_local_results(vectors)[0]

    return encode


def _steps_to_next_event(config: RunConfig, done: int) -> int:
    """Returns the number of steps that can run on the devices before Python has something to do."""
    settings = config.training
    events = [settings.checkpoint_every]
    if config.data.dev:
        events.append(settings.evaluate_every)
    until = [every - done % every for every in events]
    return min(settings.steps_per_loop, settings.steps - done, *until)
