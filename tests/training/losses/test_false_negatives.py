"""Documents known to answer a query are recognised by id and by text."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from xtr_tf.training.losses.objectives import false_negatives

A, B, C, D, E, NONE = [1, 2], [3, 4], [5, 6], [7, 8], [1, 9], [0, 0]


def test_marks_the_same_id_the_same_text_and_other_positives_but_never_the_label():
    # Each document: its id, its text.
    documents = tf.constant([[A, B], [C, D], [A, E], [E, B], [NONE, NONE]])
    positives = tf.constant(
        [
            [[A, B], [NONE, NONE]],  # documents 2 (same id) and 3 (same text) answer it too
            [[C, D], [NONE, D]],
        ]
    )
    marked = false_negatives(positives, documents, tf.constant([0, 1]))
    np.testing.assert_array_equal(marked, [[False, False, True, True, False], [False] * 5])


def test_several_positives_of_one_query():
    documents = tf.constant([[A, B], [C, D], [E, E]])
    positives = tf.constant([[[A, B], [C, D]], [[C, D], [NONE, NONE]], [[E, E], [A, NONE]]])
    marked = false_negatives(positives, documents, tf.constant([0, 1, 2]))
    np.testing.assert_array_equal(marked, [[False, True, False], [False] * 3, [True, False, False]])


def test_half_a_fingerprint_does_not_match():
    marked = false_negatives(tf.constant([[[A, A]]]), tf.constant([[B, B], [E, E]]), tf.constant([0]))
    assert not marked.numpy().any()
