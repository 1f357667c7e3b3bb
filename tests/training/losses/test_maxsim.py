"""f_ColBERT against NumPy."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.training.losses import maxsim
from xtr_tf.training.losses.scores import maxsim_scores


@hypothesis.given(st.integers(0, 2**32), st.booleans())
def test_equals_the_reference(seed, static_shapes):
    rng = np.random.default_rng(seed)
    query_count, n, document_count, m = rng.integers(1, 5, 4)
    queries = rng.normal(size=[query_count, n, 3]).astype(np.float32)
    documents = rng.normal(size=[document_count, m, 3]).astype(np.float32)
    query_mask = rng.random([query_count, n]) < 0.8
    document_mask = rng.random([document_count, m]) < 0.7
    expected = np.zeros([query_count, document_count])
    for q in range(query_count):
        for d in range(document_count):
            if query_mask[q].any() and document_mask[d].any():
                similarities = queries[q][query_mask[q]] @ documents[d][document_mask[d]].T
                expected[q, d] = similarities.max(axis=1).mean()
    scores = maxsim_scores(queries, query_mask, documents, document_mask, static_shapes=static_shapes)
    largest = np.abs(queries).sum(axis=-1).max() * np.abs(documents).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=rounding(3 + n, largest))


def test_gradient_equals_that_of_plain_operations():
    rng = np.random.default_rng(0)
    queries = tf.constant(rng.normal(size=[3, 4, 8]).astype(np.float32))
    documents = tf.constant(rng.normal(size=[5, 6, 8]).astype(np.float32))
    weights = rng.normal(size=[3, 5]).astype(np.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([queries, documents])
        ours = maxsim_scores(queries, tf.ones([3, 4], bool), documents, tf.ones([5, 6], bool), block=2)
        similarities = tf.einsum("qnx,dmx->qndm", queries, documents)
        plain = tf.reduce_mean(tf.reduce_max(similarities, axis=-1), axis=1)
        ours, plain = tf.reduce_sum(ours * weights), tf.reduce_sum(plain * weights)
    for vectors in (queries, documents):
        np.testing.assert_allclose(
            tape.gradient(ours, vectors), tape.gradient(plain, vectors), rtol=1e-4, atol=1e-6
        )


def test_a_block_is_as_large_as_the_device_has_room_for(monkeypatch):
    """mxtr_base on 8 replicas: 256 steps one after the other fit a processor's cache, 2 an accelerator."""
    shapes = [tf.TensorSpec([32, 32, 128]), tf.TensorSpec([512, 512, 128])]
    blocks = {}
    for kind in ("cpu", "accelerator"):
        monkeypatch.setattr(maxsim, "_device_kind", lambda kind=kind: kind)

        def count(queries, documents, kind=kind):
            blocks[kind] = maxsim._Layout.of(queries, documents, None).blocks
            return queries

        tf.function(count).get_concrete_function(*shapes)
    assert blocks == {"cpu": 256, "accelerator": 2}
