"""The loss of one replica's queries against the documents of the whole global batch.

Combines the parts of `losses/` and applies the k_train, the temperature and the candidates of a run. Knows
replicas, not the encoder.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.config.training import LossConfig
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.losses.objectives import distillation_divergence, false_negatives, in_batch_cross_entropy
from xtr_tf.training.losses.scores import TokenRetrieval, maxsim_scores, token_retrieval_scores
from xtr_tf.training.strategy import gather_over_replicas


class BatchLoss(NamedTuple):
    """A replica's share of the global batch. Summed over replicas, each value is a mean over the batch.

    Attributes:
        loss: Loss to minimise.
        statistics: Values to monitor, by name.
    """

    loss: tf.Tensor
    statistics: dict[str, tf.Tensor]


def batch_loss(
    config: LossConfig,
    batch: Batch,
    queries: tf.Tensor,
    documents: tf.Tensor,
    static_shapes: bool = True,
) -> BatchLoss:
    """Computes the loss in a replica context.

    Documents are gathered from all replicas, so that token retrieval is over the global batch. The gradient
    of gathering sums the gradients of a document over the queries of all replicas.

    Args:
        config: Settings of the loss.
        batch: This replica's batch.
        queries: Vectors of `batch.query_ids`, `[B, n, dim]`.
        documents: Vectors of `batch.document_ids`, `[B + B·H, m, dim]`.
        static_shapes: As for `token_retrieval_scores`.

    Returns:
        This replica's share of the loss and of the statistics.
    """
    context = tf.distribute.get_replica_context()
    local_documents = tf.shape(documents)[0]
    documents = gather_over_replicas(documents)
    document_mask = gather_over_replicas(batch.document_ids) != 0
    query_mask = batch.query_ids != 0
    labels = context.replica_id_in_sync_group * local_documents + tf.range(tf.shape(queries)[0])
    known_answers = false_negatives(batch.positive_keys, gather_over_replicas(batch.document_keys), labels)
    candidates = tf.reduce_any(document_mask, axis=1)[None, :] & ~known_answers

    statistics: dict[str, tf.Tensor] = {}
    if config.score == "xtr":
        retrieval = token_retrieval_scores(
            queries,
            query_mask,
            documents,
            document_mask,
            config.k_train,
            candidates,
            config.imputation == "threshold",
            recall=config.top_k_recall if _is_tpu() else 1.0,
            static_shapes=static_shapes,
        )
        scores = retrieval.scores
        statistics = _retrieval_statistics(retrieval, labels, candidates)
        statistics["gold_token_rate"] = _gold_token_rate(
            config.k_train,
            retrieval.threshold,
            queries,
            query_mask,
            documents,
            document_mask,
            labels,
            candidates,
        )
    else:
        scores = maxsim_scores(queries, query_mask, documents, document_mask, static_shapes=static_shapes)

    losses = in_batch_cross_entropy(scores, labels, candidates, config.temperature)
    best = tf.argmax(tf.where(candidates, scores, scores.dtype.min), axis=1, output_type=tf.int32)
    statistics["accuracy"] = tf.cast(best == labels, tf.float32)
    if config.distillation_weight:
        student_scores = _labelled_scores(scores, labels, batch.teacher_scores)
        divergences = distillation_divergence(student_scores, batch.teacher_scores, config.temperature)
        statistics["distillation"] = divergences
        losses += config.distillation_weight * divergences

    global_batch = tf.cast(tf.shape(queries)[0] * context.num_replicas_in_sync, tf.float32)
    shares = {name: tf.reduce_sum(values) / global_batch for name, values in statistics.items()}
    loss = tf.reduce_sum(losses) / global_batch + _nan_unless_finite(queries, documents)
    return BatchLoss(loss, shares)


def statistic_names(config: LossConfig) -> list[str]:
    """Returns the names of the statistics of `batch_loss`."""
    names = ["accuracy"]
    if config.score == "xtr":
        names += ["positives_without_tokens", "positive_z", "negative_z", "gold_token_rate"]
    if config.distillation_weight:
        names.append("distillation")
    return names


def _nan_unless_finite(*vectors: tf.Tensor) -> tf.Tensor:
    """Returns 0, or NaN if a vector is not finite. A maximum may skip NaN, but the loss must not."""
    total = tf.add_n([tf.reduce_sum(tf.stop_gradient(part)) for part in vectors])
    return tf.where(tf.math.is_finite(total), 0.0, float("nan"))


def _is_tpu() -> bool:
    return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def _labelled_scores(scores: tf.Tensor, labels: tf.Tensor, teacher_scores: tf.Tensor) -> tf.Tensor:
    """Returns the scores of each query's positive and hard negatives, `[B, 1 + H]`."""
    batch_size, columns = teacher_scores.shape
    first = labels[0]
    negatives = first + batch_size + tf.reshape(tf.range(batch_size * (columns - 1)), [batch_size, -1])
    return tf.gather(scores, tf.concat([labels[:, None], negatives], axis=1), batch_dims=1)


def _retrieval_statistics(
    retrieval: TokenRetrieval, labels: tf.Tensor, candidates: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts the tokens of each query that retrieved its positive, and those per negative, `[B]` each."""
    counts = retrieval.retrieving_tokens
    positive_counts = tf.gather(counts, labels, batch_dims=1)
    negatives = candidates & (tf.range(tf.shape(counts)[1])[None, :] != labels[:, None])
    negative_counts = tf.reduce_sum(tf.where(negatives, counts, 0.0), axis=1)
    return {
        "positives_without_tokens": tf.cast(positive_counts == 0, tf.float32),
        "positive_z": positive_counts,
        "negative_z": tf.math.divide_no_nan(negative_counts, _count(negatives, axis=1)),
    }


def _gold_token_rate(
    k_train: int,
    threshold: tf.Tensor,
    queries: tf.Tensor,
    query_mask: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    labels: tf.Tensor,
    candidates: tf.Tensor,
) -> tf.Tensor:
    """Returns the share of each query's retrieved tokens that belong to its positive, `[B]`."""
    # The similarities with the positives are computed again, and may round differently.
    positives = tf.stop_gradient(tf.gather(documents, labels))
    similarities = tf.matmul(tf.stop_gradient(queries), positives, transpose_b=True) + 1e-6
    gold = (similarities >= threshold[:, :, None]) & tf.gather(document_mask, labels)[:, None, :]
    gold_counts = _count(gold & query_mask[:, :, None], axis=[1, 2])
    available = tf.linalg.matvec(tf.cast(candidates, tf.float32), _count(document_mask, axis=1))
    retrieved = _count(query_mask, axis=1) * tf.minimum(float(k_train), available)
    return tf.math.divide_no_nan(gold_counts, retrieved)


def _count(mask: tf.Tensor, axis: int | list[int]) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.float32), axis=axis)
