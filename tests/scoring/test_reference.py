"""The NumPy twin of scoring against the definition, one number at a time, and against the graph."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from xtr_tf.config.retrieval import IMPUTATIONS
from xtr_tf.errors import InputError
from xtr_tf.scoring.ranking import sort_keys
from xtr_tf.scoring.reference import (
    colbert_scores,
    maxima_of_hits,
    missing_similarities,
    rank_documents,
    row_cutoffs,
    xtr_scores,
)
from xtr_tf.scoring.token_hits import hits_from_padded
from xtr_tf.scoring.xtr import score_documents


def definition(documents, scores, imputation, constant):
    """f_XTR' of one query as the paper defines it; `documents` and `scores` are lists of rows of hits."""
    candidates = sorted({document for row in documents for document in row if document >= 0})
    answers = {}
    for candidate in candidates:
        terms, retrieved = [], 0
        for row, row_scores in zip(documents, scores, strict=True):
            similarities = [s for d, s in zip(row, row_scores, strict=True) if d == candidate]
            valid = [s for d, s in zip(row, row_scores, strict=True) if d >= 0]
            missing = {"top_k_prime": min(valid, default=0.0), "constant": constant}.get(imputation, 0.0)
            terms.append(max(similarities, default=missing))
            retrieved += bool(similarities)
        answers[candidate] = sum(terms) / (retrieved if imputation == "none" else len(terms))
    return answers


@st.composite
def queries_of_hits(draw):
    """`[rows, columns]` documents (-1 for none) and scores of a few queries, and where each begins."""
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    lengths = generator.integers(1, 5, draw(st.integers(1, 4)))
    shape = (lengths.sum(), draw(st.integers(1, 7)))
    documents = generator.integers(-2, 6, shape).clip(-1)
    return documents, generator.standard_normal(shape).astype(np.float32), np.cumsum([0, *lengths[:-1]])


@settings(max_examples=60)
@given(hits=queries_of_hits(), imputation=st.sampled_from(IMPUTATIONS))
def test_f_xtr_is_the_definition_and_the_graphs(hits, imputation):
    documents, scores, starts = hits
    valid = documents >= 0
    maxima = maxima_of_hits(scores, documents, 6)
    answers = xtr_scores(maxima, maxima > -np.inf, row_cutoffs(scores, valid), starts, imputation, 0.3)
    ends = [*starts[1:], len(scores)]
    mask = np.arange(max(np.subtract(ends, starts))) < np.subtract(ends, starts)[:, np.newaxis]
    # Tokens are numbered so that a token's ordinal is its document's: what is not valid is padding.
    graph = score_documents(
        hits_from_padded(tf.constant(documents, tf.int32), tf.constant(scores), tf.constant(valid)),
        tf.constant(mask),
        tf.identity,
        6,
        tf.constant(6),
        imputation,
        0.3,
    )
    ranking = rank_documents(answers, 6)
    for query, (start, end) in enumerate(zip(starts, ends, strict=True)):
        expected = definition(documents[start:end].tolist(), scores[start:end].tolist(), imputation, 0.3)
        found = {d: s for d, s in enumerate(answers[query]) if np.isfinite(s)}
        assert found == pytest.approx(expected, abs=1e-5)
        np.testing.assert_allclose(graph.scores[query], ranking.scores[query], atol=1e-5)
        assert (graph.ordinals[query].numpy() >= 0).tolist() == (ranking.ordinals[query] >= 0).tolist()


def test_f_colbert_is_the_mean_of_the_maxima():
    maxima = np.array([[0.9, 0.2], [0.4, 0.8], [-0.5, 0.1]], np.float32)
    np.testing.assert_allclose(colbert_scores(maxima, [0, 2]), [[0.65, 0.5], [-0.5, 0.1]])
    everything = xtr_scores(maxima, np.ones_like(maxima, bool), maxima.min(axis=1), [0, 2])
    np.testing.assert_allclose(everything, colbert_scores(maxima, [0, 2]))


def test_equal_scores_are_ranked_by_document_and_no_result_is_not_ranked():
    ordinals, scores = rank_documents(np.array([[0.1, 0.5, -np.inf, 0.5]]), 9)
    assert ordinals.tolist() == [[1, 3, 0, -1]]
    assert scores.tolist() == [[0.5, 0.5, 0.1, -np.inf]]


def test_an_unknown_imputation_is_refused():
    with pytest.raises(InputError, match=r"one of top_k_prime, zero, constant, none. Received: 'mean'"):
        missing_similarities(np.zeros(1), "mean")


FLOATS = st.floats(width=32, allow_nan=False)


@given(st.lists(st.tuples(FLOATS, st.integers(-1, 2**31 - 1)), min_size=2, max_size=20))
def test_sort_keys_order_by_score_and_then_by_document(candidates):
    scores, ordinals = (np.array(column) for column in zip(*candidates, strict=True))
    keys = sort_keys(tf.constant(scores + 0.0, tf.float32), tf.constant(ordinals, tf.int32)).numpy()
    by_keys = np.argsort(-keys, kind="stable")
    by_both = sorted(range(len(keys)), key=lambda i: (-(scores[i] + 0.0), ordinals[i]))
    assert [candidates[i] for i in by_keys] == [candidates[i] for i in by_both]


def test_the_reference_needs_no_tensorflow():
    code = "import sys, xtr_tf.scoring.reference; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("imputation", IMPUTATIONS)
def test_a_weight_is_a_number_of_repetitions(imputation):
    generator = np.random.default_rng(0)
    maxima = generator.random([5, 7])
    retrieved = generator.random([5, 7]) < 0.6
    cutoffs, weights = generator.random(5), np.array([2, 1, 3, 1, 4])
    starts = np.array([0, 3])
    repeated = np.repeat(np.arange(5), weights)
    again = np.array([0, 6])  # 2 + 1 + 3 tokens of the first query
    weighted = xtr_scores(maxima, retrieved, cutoffs, starts, imputation, 0.2, weights)
    plain = xtr_scores(maxima[repeated], retrieved[repeated], cutoffs[repeated], again, imputation, 0.2)
    np.testing.assert_allclose(weighted, plain, rtol=1e-12)
    np.testing.assert_allclose(
        colbert_scores(maxima, starts, weights), colbert_scores(maxima[repeated], again), rtol=1e-12
    )
