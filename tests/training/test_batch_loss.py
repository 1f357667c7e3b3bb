"""The loss of a batch: false negatives, missing negatives, distillation and what is reported."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.training import LossConfig
from xtr_tf.training.batch_loss import batch_loss, statistic_names
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.losses.objectives import in_batch_cross_entropy
from xtr_tf.training.losses.scores import token_retrieval_scores

EYE = np.eye(4, dtype=np.float32)


def make_batch(query_ids, document_ids, document_keys=None, teacher_scores=None):
    query_ids, document_ids = tf.constant(query_ids), tf.constant(document_ids)
    count, columns = query_ids.shape[0], document_ids.shape[0] // query_ids.shape[0]
    keys = np.zeros([document_ids.shape[0], 3, 2], np.int32)
    if document_keys is not None:
        keys[:, 0, :] = np.array(document_keys)[:, None]
    teacher = np.full([count, columns], np.nan) if teacher_scores is None else teacher_scores
    return Batch(
        query_ids,
        document_ids,
        tf.constant(keys[:count, None]),
        tf.constant(keys),
        tf.constant(teacher, tf.float32),
    )


def test_a_false_negative_neither_counts_nor_blocks():
    """Query 1's positive is query 0's positive too: as if it were not in the batch for query 0."""
    queries = tf.constant(EYE[None, :1].repeat(2, 0))
    documents = tf.constant(np.stack([EYE[0] * 0.5, EYE[0] * 0.9, EYE[0] * 0.1, EYE[0] * 0.2])[:, None])
    ids = [[5]] * 2, [[5]] * 4
    loss = LossConfig(k_train=1, temperature=0.1)
    marked = batch_loss(loss, make_batch(*ids, document_keys=[7, 7, 8, 9]), queries, documents)
    # Query 0 sees documents 0, 2, 3; query 1 sees 1, 2, 3. Each retrieves its own positive.
    expected = [-np.log(np.exp(x / 0.1) / (np.exp(x / 0.1) + 2)) for x in (0.5, 0.9)]
    assert marked.loss.numpy() == pytest.approx(np.mean(expected), rel=1e-5)
    assert marked.statistics["accuracy"] == 1
    unmarked = batch_loss(loss, make_batch(*ids, document_keys=[1, 2, 3, 4]), queries, documents)
    assert unmarked.statistics["positives_without_tokens"] == 0.5
    assert unmarked.loss > marked.loss


def test_imputation_is_a_setting_of_the_loss():
    rng = np.random.default_rng(1)
    queries, documents = (
        tf.math.l2_normalize(tf.constant(rng.normal(size=s).astype("f")), -1) for s in ((2, 3, 4), (4, 5, 4))
    )
    batch = make_batch(np.ones([2, 3], np.int32), np.ones([4, 5], np.int32))
    result = batch_loss(LossConfig(k_train=4, imputation="threshold"), batch, queries, documents)
    masks = tf.ones([2, 3], tf.bool), tf.ones([4, 5], tf.bool)
    scores = token_retrieval_scores(queries, masks[0], documents, masks[1], 4, imputed=True).scores
    expected = in_batch_cross_entropy(scores, tf.range(2), tf.ones([2, 4], tf.bool))
    assert result.loss.numpy() == pytest.approx(expected.numpy().mean(), rel=1e-6)
    assert result.statistics.keys() == set(statistic_names(LossConfig()))


def test_missing_negatives_are_not_in_the_denominator():
    rng = np.random.default_rng(0)
    queries, documents = (
        tf.math.l2_normalize(tf.constant(rng.normal(size=s).astype("f")), -1) for s in ((2, 3, 4), (4, 5, 4))
    )
    present = np.ones([4, 5], np.int32)
    present[3] = 0
    loss = LossConfig(k_train=6)
    result = batch_loss(loss, make_batch(np.ones([2, 3], np.int32), present), queries, documents)
    masks = tf.ones([2, 3], tf.bool), tf.ones([3, 5], tf.bool)
    scores = token_retrieval_scores(queries, masks[0], documents[:3], masks[1], 6).scores
    expected = in_batch_cross_entropy(scores, tf.range(2), tf.ones([2, 3], tf.bool))
    assert result.loss.numpy() == pytest.approx(expected.numpy().mean(), rel=1e-6)


def test_distillation_compares_each_query_with_its_own_documents():
    queries = tf.constant(np.stack([EYE[:1], EYE[1:2]]))
    similarities = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.5], [0.7, 0.4]], np.float32)
    documents = tf.constant(np.pad(similarities, [[0, 0], [0, 2]])[:, None])
    teacher = np.array([[2.0, 1.0], [1.0, 3.0]])
    batch = make_batch([[5]] * 2, [[5]] * 4, teacher_scores=teacher)
    loss = LossConfig(score="colbert", distillation_weight=2.0)
    result = batch_loss(loss, batch, queries, documents)
    plain = batch_loss(LossConfig(score="colbert"), batch, queries, documents)
    # Query 0 owns documents 0 and 2, query 1 documents 1 and 3.
    own = np.array([[0.9, 0.3], [0.8, 0.4]])
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (teacher, own))
    divergence = (p * np.log(p / q)).sum(axis=1).mean()
    assert result.statistics["distillation"].numpy() == pytest.approx(divergence, rel=1e-5)
    assert result.loss.numpy() == pytest.approx(plain.loss.numpy() + 2 * divergence, rel=1e-5)


def test_statistics_are_what_they_say():
    queries = tf.constant(EYE[None, :2].repeat(2, 0))
    # Tokens' similarities with query tokens 0 and 1.
    tokens = np.array([[[0.9, 0.0], [0.8, 0.1]], [[0.1, 0.9], [0.0, 0.8]]], np.float32)
    documents = tf.constant(np.pad(tokens, [[0, 0], [0, 0], [0, 2]]))
    batch = make_batch([[5, 5]] * 2, [[5, 5]] * 2)
    result = batch_loss(LossConfig(k_train=2), batch, queries, documents).statistics
    # Token 0 retrieves both tokens of document 0, token 1 both of document 1, for either query.
    assert result["positive_z"] == 1
    assert result["negative_z"] == 1
    assert result["gold_token_rate"] == 0.5
    assert result["positives_without_tokens"] == 0
