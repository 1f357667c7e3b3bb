"""What a TPU's approximate top-k costs, by its algorithm in NumPy, because CPUs compute top-k exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.training.losses.objectives import in_batch_cross_entropy
from xtr_tf.training.losses.scores import token_retrieval_scores

RECALL, K = 0.95, 16
QUERIES, QUERY_LENGTH, DOCUMENTS, DOCUMENT_LENGTH, DIM = 32, 8, 32, 16, 8


def approx_max_k(operand, k, recall_target):
    """[Chern et al.](https://arxiv.org/abs/2206.14286): the k largest of the buckets' largest.

    Two of the k largest in one bucket cost one of them, so that each survives with at least
    `(1 - 1 / buckets) ** (k - 1)`, which is to be the recall.
    """
    values = operand.numpy()
    buckets = math.ceil(1 / (1 - recall_target ** (1 / (k - 1))))
    largest = np.full([len(values), buckets], -np.inf, np.float32)
    for column in range(values.shape[1]):
        bucket = largest[:, column % buckets]
        np.maximum(bucket, values[:, column], out=bucket)
    return tf.constant(np.sort(largest, axis=1)[:, -k:]), None


@pytest.fixture(scope="module")
def batch():
    """Queries that resemble their own document, as those of a trained encoder do."""
    rng = np.random.default_rng(0)
    documents = rng.normal(size=[DOCUMENTS, DOCUMENT_LENGTH, DIM])
    queries = documents[:QUERIES, :QUERY_LENGTH] + rng.normal(size=[QUERIES, QUERY_LENGTH, DIM])
    unit = [part / np.linalg.norm(part, axis=-1, keepdims=True) for part in (queries, documents)]
    return [tf.constant(part, tf.float32) for part in unit]


def retrieve(batch, recall):
    queries, documents = batch
    query_mask, document_mask = tf.ones(queries.shape[:2], tf.bool), tf.ones(documents.shape[:2], tf.bool)
    retrieval = token_retrieval_scores(queries, query_mask, documents, document_mask, K, recall=recall)
    candidates = tf.ones([QUERIES, DOCUMENTS], tf.bool)
    return retrieval, in_batch_cross_entropy(retrieval.scores, tf.range(QUERIES), candidates, 0.05).numpy()


def test_the_threshold_falls_by_the_missing_recall_and_the_loss_by_less_than_a_batch_varies(
    batch, monkeypatch
):
    exact, exact_losses = retrieve(batch, 1.0)
    monkeypatch.setattr(tf.math, "approx_max_k", approx_max_k)
    near, near_losses = retrieve(batch, RECALL)
    # Nothing that should be retrieved is lost: the k-th largest of what was found is never above the k-th.
    assert (near.threshold <= exact.threshold).numpy().all()
    assert (near.retrieving_tokens >= exact.retrieving_tokens).numpy().all()
    similarities = tf.einsum("qnd,cmd->qncm", *batch).numpy().reshape(QUERIES, QUERY_LENGTH, -1)
    ranks = (similarities >= near.threshold.numpy()[:, :, None] - 1e-6).sum(axis=-1) / K
    error = ranks.std() / math.sqrt(ranks.size)
    assert 1 < ranks.mean() < 1 / RECALL + 4 * error
    noise = exact_losses.std() / math.sqrt(QUERIES)
    assert 0 < abs(near_losses.mean() - exact_losses.mean()) < noise
