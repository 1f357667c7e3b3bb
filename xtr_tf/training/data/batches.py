"""Tokenized batches as a `tf.data` stream, made from data and a tokenizer.

Knows nothing about devices except their number.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.sampling import TextBatch, TrainingData
from xtr_tf.training.data.teacher_vectors import TaughtStream

# Without static shapes, rows are cut to a multiple of this, for few shapes and full vector registers.
_LENGTH_MULTIPLE = 16


class Batch(NamedTuple):
    """The batch of one device in one step, `B` queries with `H` hard negatives each.

    Attributes:
        query_ids: `[B, n]` int32.
        document_ids: `[B + B·H, m]` int32, in the layout of `TextBatch`. A missing negative is all padding.
        positive_keys: `[B, P, 3, 2]` int32, see `TextBatch`.
        document_keys: `[B + B·H, 3, 2]` int32.
        teacher_scores: `[B, 1 + H]` float32.
    """

    query_ids: tf.Tensor
    document_ids: tf.Tensor
    positive_keys: tf.Tensor
    document_keys: tf.Tensor
    teacher_scores: tf.Tensor


class TaughtTexts(NamedTuple):
    """Texts whose token vectors should point in the directions of a teacher's, `T` per device and step.

    Attributes:
        ids: `[T, m]` int32.
        targets: `[T, m, dim]` float32 of unit length, zero where there is no target.
    """

    ids: tf.Tensor
    targets: tf.Tensor


class MixedBatch(NamedTuple):
    """Examples and taught texts of one step."""

    examples: Batch
    taught: TaughtTexts


class TensorSource(Protocol):
    """A stream of examples that is read by TensorFlow operations, such as `TokenizedData`.

    Attributes:
        hard_negatives: `H`.
        max_positives: Largest number of positives of an example.
    """

    hard_negatives: int
    max_positives: int

    def batches(self, starts: np.ndarray, size: int) -> tf.data.Dataset:
        """Returns a dataset of `Batch`, each with `size` examples starting at a position of the stream."""
        ...


BatchSource = TrainingData | TensorSource


def batch_dataset(
    data: BatchSource,
    tokenizer: Tokenizer,
    batch_size: int,
    steps: range,
    devices: range = range(1),
    device_count: int = 1,
    static_shapes: bool = True,
) -> tf.data.Dataset:
    """Returns the batches for the devices of one host, device by device and step by step.

    The global batch of a step is `device_count` consecutive runs of `batch_size` examples of the stream. The
    training data therefore do not depend on the number of hosts.

    Args:
        data: Examples as texts or ids.
        tokenizer: Tokenizer that turns texts into ids, and defines the lengths of ids.
        batch_size: Queries per device.
        steps: Steps to make batches for.
        devices: Numbers of this host's devices among all devices.
        device_count: Number of devices of all hosts.
        static_shapes: Whether to keep rows at the tokenizer's lengths, as XLA and exchange between devices
            require. Otherwise rows are cut to the longest of the batch, rounded up to a multiple of 16.

    Returns:
        A deterministic dataset of `Batch`.
    """
    places = [(step, device) for step in steps for device in devices]
    starts = np.array([(step * device_count + device) * batch_size for step, device in places], np.int64)
    if isinstance(data, TrainingData):
        batches = _text_batches(data, tokenizer, starts, batch_size)
    else:
        batches = data.batches(starts, batch_size)
    documents = batch_size * (1 + data.hard_negatives)
    shapes = Batch(
        [batch_size, tokenizer.config.query_length],
        [documents, tokenizer.config.document_length],
        [batch_size, data.max_positives, 3, 2],
        [documents, 3, 2],
        [batch_size, 1 + data.hard_negatives],
    )

    def shaped(batch: Batch) -> Batch:
        ids = Batch(*(tf.ensure_shape(value, shape) for value, shape in zip(batch, shapes, strict=True)))
        if static_shapes:
            return ids
        return ids._replace(query_ids=_cut(ids.query_ids), document_ids=_cut(ids.document_ids))

    return batches.map(shaped).prefetch(4)


def _text_batches(
    data: TrainingData, tokenizer: Tokenizer, starts: np.ndarray, batch_size: int
) -> tf.data.Dataset:
    """Returns batches of texts, read by Python and tokenized by TensorFlow."""
    # In the order of `TextBatch`.
    dtypes = [tf.string, tf.string, tf.int32, tf.int32, tf.float32]

    def read(start: np.ndarray) -> list[np.ndarray]:
        return list(data.batch(int(start), batch_size))

    def batch(start: tf.Tensor) -> Batch:
        values = tf.numpy_function(read, [start], dtypes, stateful=False)
        texts = [tf.ensure_shape(value, [None]) for value in values[:2]]
        return _tokenize(tokenizer, TextBatch(*texts, *values[2:]))

    return tf.data.Dataset.from_tensor_slices(starts).map(batch, num_parallel_calls=2, deterministic=True)


def taught_dataset(
    stream: TaughtStream,
    tokenizer: Tokenizer,
    batch_size: int,
    steps: range,
    devices: range = range(1),
    device_count: int = 1,
    static_shapes: bool = True,
) -> tf.data.Dataset:
    """Returns the taught texts for the devices of one host, in the order of `batch_dataset`.

    Args:
        stream: Texts and their targets.
        tokenizer: Tokenizer that turns texts into ids.
        batch_size: Texts per device.
        steps: Steps to make batches for.
        devices: Numbers of this host's devices among all devices.
        device_count: Number of devices of all hosts.
        static_shapes: Whether to keep rows at the tokenizer's lengths. Otherwise they are cut to the longest
            of the batch, rounded up to a multiple of 16.

    Returns:
        A deterministic dataset of `TaughtTexts`.
    """
    length = tokenizer.config.document_length

    def position(run: np.ndarray) -> int:
        step, device = divmod(int(run), len(devices))
        return (steps[step] * device_count + devices[device]) * batch_size

    def read(run: np.ndarray) -> np.ndarray:
        return np.array([text.encode() for text in stream.texts(position(run), batch_size)], object)

    def align(run: np.ndarray, starts: np.ndarray, limits: np.ndarray) -> np.ndarray:
        return stream.targets(position(run), starts, limits)

    def batch(run: tf.Tensor) -> TaughtTexts:
        (texts,) = tf.numpy_function(read, [run], [tf.string], stateful=False)
        spans = tokenizer.with_offsets(tf.ensure_shape(texts, [batch_size]), length)
        ids, starts, limits = (
            part.to_tensor(shape=[batch_size, length])
            for part in (spans.ids, spans.character_starts, spans.character_limits)
        )
        if not static_shapes:
            ids = _cut(ids)
            starts, limits = (part[:, : tf.shape(ids)[1]] for part in (starts, limits))
        (targets,) = tf.numpy_function(align, [run, starts, limits], [tf.float32], stateful=False)
        return TaughtTexts(ids, tf.ensure_shape(targets, [*ids.shape, stream.dim]))

    runs = tf.data.Dataset.range(len(steps) * len(devices))
    return runs.map(batch, num_parallel_calls=2, deterministic=True).prefetch(4)


def _tokenize(tokenizer: Tokenizer, text: TextBatch) -> Batch:
    present = tf.cast(text.documents != "", tf.int32)
    return Batch(
        tokenizer.tokenize_queries(text.queries),
        tokenizer.tokenize_documents(text.documents) * present[:, None],
        text.positive_keys,
        text.document_keys,
        text.teacher_scores,
    )


def _cut(ids: tf.Tensor) -> tf.Tensor:
    """Removes padding that is common to all rows."""
    longest = tf.reduce_max(tf.math.count_nonzero(ids, axis=1, dtype=tf.int32))
    return ids[:, : -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE]
