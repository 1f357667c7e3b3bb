"""The gradient of a batch: computed at once, or in chunks with the gradient of the whole batch.

[Gradient caching](https://arxiv.org/abs/2101.06983) encodes a large batch in small chunks, computes the loss
of all vectors together, and encodes each chunk a second time for its part of the gradient. It needs only the
memory of a chunk. Knows neither optimisers nor the encoder, only a function that encodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from xtr_tf.config.training import LossConfig
from xtr_tf.model.layers import split_seed
from xtr_tf.training.batch_loss import BatchLoss, batch_loss
from xtr_tf.training.data.batches import Batch, TaughtTexts
from xtr_tf.training.losses.objectives import vector_distances
from xtr_tf.training.strategy import gather_over_replicas

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices
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
        encode: Function from ids `[rows, length]` and a dropout seed `[2]` to vectors.
        variables: Variables to differentiate with respect to.
        loss: Settings of the loss.
        batch: This replica's batch.
        seed: Dropout seed, `[2]` int32, different for every replica and step.
        static_shapes: Whether XLA compiles the loss, see `batch_loss`.

    Returns:
        The loss, and the gradients in the order of `variables`.
    """
    query_seed, document_seed = split_seed(seed, 2)
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
    """Computes the gradients of the same loss in chunks, with less memory.

    Args:
        encode: Function from ids `[rows, length]` and a dropout seed `[2]` to vectors.
        variables: Variables to differentiate with respect to.
        loss: Settings of the loss.
        batch: This replica's batch.
        seed: Dropout seed, `[2]` int32, different for every replica and step.
        chunks: Number of chunks, which must divide the batch.
        static_shapes: Whether XLA compiles the loss, see `batch_loss`.

    Returns:
        The loss, and the gradients in the order of `variables`.
    """
    query_chunks, document_chunks = (
        tf.reshape(ids, [chunks, ids.shape[0] // chunks, -1]) for ids in (batch.query_ids, batch.document_ids)
    )

    def encode_chunk(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        query_seed, document_seed = split_seed(tf.random.experimental.stateless_fold_in(seed, number), 2)
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


def taught_gradients(
    encode: Encode,
    variables: Sequence[tf.Variable],
    texts: TaughtTexts,
    seed: tf.Tensor,
    weight: float,
) -> tuple[tf.Tensor, list[Gradient]]:
    """Computes a replica's share of the distance to a teacher's vectors, and the gradients of its loss.

    Args:
        encode: Function from ids and a dropout seed to vectors.
        variables: Variables to differentiate with respect to.
        texts: Ids of texts, and the teacher's vectors of their tokens.
        seed: Dropout seed.
        weight: Weight of the distance in the loss.

    Returns:
        The distance, and the gradients of `weight` times the distance, in the order of `variables`.
    """
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    with tf.GradientTape() as tape:
        distance = vector_distances(encode(texts.ids, seed), texts.targets) / replicas
        loss = weight * distance
    return distance, tape.gradient(loss, variables)


def add(first: Gradient, second: Gradient) -> Gradient:
    """Adds two gradients of one variable. Those of embeddings stay sparse.

    Args:
        first: One gradient.
        second: The other gradient, of the same kind.

    Returns:
        The sum.
    """
    if isinstance(first, tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.concat([first.values, second.values], axis=0),
            tf.concat([first.indices, second.indices], axis=0),
            first.dense_shape,
        )
    return first + second


def _row_shape(vectors: tf.Tensor) -> list[Any]:
    dynamic = tf.shape(vectors)
    return [dynamic[i] if vectors.shape[i] is None else vectors.shape[i] for i in (2, 3)]


def _sum_over(
    chunks: int, gradients_of: Callable[[tf.Tensor], list[Gradient]], variables: Sequence[tf.Variable]
) -> list[Gradient]:
    """Sums the gradients of all chunks, one after the other. Those of embeddings stay sparse."""
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


def sum_over_replicas(gradient: Gradient) -> Gradient:
    """Sums a gradient over all replicas, in a replica context.

    Gradients of embeddings stay sparse, with each index once.

    Args:
        gradient: This replica's gradient.

    Returns:
        The sum.
    """
    context = tf.distribute.get_replica_context()
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = gather_over_replicas(gradient.values), gather_over_replicas(gradient.indices)
        return combine_duplicates(tf.IndexedSlices(values, indices, gradient.dense_shape))
    if context.num_replicas_in_sync == 1:
        return gradient
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)


def combine_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums the rows with the same index, so that every index occurs once."""
    indices, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def scale(gradient: Gradient, factor: float | tf.Tensor) -> Gradient:
    """Multiplies a gradient by a number.

    Args:
        gradient: Dense or sparse gradient.
        factor: The number.

    Returns:
        The product, of the same kind.
    """
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
