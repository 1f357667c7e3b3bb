"""Peak memory of f_XTR and its gradient next to that of the plain form, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

PROGRAM = """
import json
import tensorflow as tf
from xtr_tf.training.losses.scores import token_retrieval_scores
from xtr_tf.runtime import peak_resident_bytes

n, m, dim, k = 32, 128, 128, 128

def ours(queries, documents):
    B = queries.shape[0]
    masks = tf.ones([B, n], tf.bool), tf.ones([B, m], tf.bool)
    return token_retrieval_scores(queries, masks[0], documents, masks[1], k).scores

def naive(queries, documents):
    B = queries.shape[0]
    similarities = tf.einsum('qnx,dmx->qndm', queries, documents)
    threshold = tf.math.top_k(tf.reshape(similarities, [B, n, B * m]), k).values[..., -1]
    retrieved = similarities >= threshold[:, :, None, None]
    maxima = tf.reduce_max(tf.where(retrieved, similarities, -2.0), axis=-1)
    found = maxima > -2
    counts = tf.reduce_sum(tf.cast(found, tf.float32), axis=1)
    return tf.reduce_sum(tf.where(found, maxima, 0.0), axis=1) / tf.maximum(counts, 1.0)

def inputs(B):
    queries = tf.math.l2_normalize(tf.random.stateless_normal([B, n, dim], [0, 1]), axis=-1)
    return queries, tf.math.l2_normalize(tf.random.stateless_normal([B, m, dim], [0, 2]), axis=-1)

def measure(score, queries, documents):
    B = queries.shape[0]

    @tf.function
    def step(queries, documents):
        with tf.GradientTape() as tape:
            tape.watch([queries, documents])
            logits = score(queries, documents)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(B), logits=logits)
        return [loss, *tape.gradient(loss, [queries, documents])]
    results = [result.numpy() for result in step(queries, documents)]
    return peak_resident_bytes(), results

for score in (ours, naive):
    measure(score, *inputs(2))  # What TensorFlow itself needs to trace and run.
batch = inputs(128)
start = peak_resident_bytes()
# The peak of a process never falls, so the smaller must come first.
ours_peak, ours_results = measure(ours, *batch)
naive_peak, naive_results = measure(naive, *batch)
differences = [float(abs(a - b).max()) for a, b in zip(ours_results, naive_results)]
print(json.dumps({"ours": ours_peak - start, "naive": naive_peak - start, "differences": differences}))
"""


def test_peak_memory_is_at_most_a_quarter_of_the_plain_form():
    # Without oneDNN, the memory of products depends on how many threads allocate it at the same time.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "TF_NUM_INTEROP_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    measured = json.loads(finished.stdout.splitlines()[-1])
    np.testing.assert_allclose(measured["differences"], 0, atol=1e-5)
    similarities = 4 * (128 * 32) * (128 * 128)
    assert measured["naive"] > similarities, measured
    assert measured["ours"] <= measured["naive"] / 4, measured
