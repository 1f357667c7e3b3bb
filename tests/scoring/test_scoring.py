"""f_XTR' against a slow NumPy reference and against f_ColBERT."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.numbers import assert_same_ranking, rounding
from xtr_tf.index.searchers.exact import ExactSearcher
from xtr_tf.scoring import xtr as scoring
from xtr_tf.scoring.maxsim import rescore_documents
from xtr_tf.scoring.ranking import RankedDocuments
from xtr_tf.scoring.token_hits import hits_from_padded
from xtr_tf.scoring.xtr import IMPUTATIONS, flatten_queries, score_documents

# Inner products of 8 terms, then a mean over at most 5 query tokens.
TOLERANCE = rounding(8 + 5)


def normalised(generator: np.random.Generator, *shape: int) -> np.ndarray:
    vectors = generator.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def reference_xtr(queries, mask, vectors, documents, k_prime, imputation, constant, allowed):
    """One loop per symbol of the definition; returns {query: {document: score}}."""
    answers = []
    for query, valid in zip(queries, mask, strict=True):
        rows = query[valid]
        retrieved = []
        for row in rows:
            similarities = vectors @ row
            order = np.argsort(-similarities, kind="stable")[:k_prime]
            retrieved.append([(documents[j], float(similarities[j])) for j in order])
        missing = {
            "top_k_prime": [row[-1][1] for row in retrieved],
            "constant": [constant] * len(rows),
        }.get(imputation, [0.0] * len(rows))
        scores = {}
        for document in {d for row in retrieved for d, _ in row if allowed[d]}:
            parts, found = [], 0
            for row, m in zip(retrieved, missing, strict=True):
                own = [score for d, score in row if d == document]
                found += bool(own)
                parts.append(max(own) if own else m)
            scores[document] = sum(parts) / (found if imputation == "none" else len(rows))
        answers.append(scores)
    return answers


def run_xtr(queries, mask, vectors, documents, k_prime, top_k, allowed=None, **options):
    searcher = ExactSearcher(vectors)
    hits = searcher.search(flatten_queries(queries, mask), tf.constant(k_prime), tf.constant(0))
    if allowed is not None:  # left out after retrieval, so that the cut-offs stay
        hits = hits._replace(scores=tf.where(allowed[documents[hits.token_ids]], hits.scores, -np.inf))
    ranked = score_documents(
        hits,
        mask,
        lambda tokens: tf.gather(documents, tokens),
        int(documents.max()) + 1,
        tf.constant(top_k),
        **options,
    )
    return ranked.ordinals.numpy(), ranked.scores.numpy()


@st.composite
def corpora(draw):
    seed = draw(st.integers(0, 2**31))
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 6, draw(st.integers(1, 12)))
    documents = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    vectors = normalised(generator, len(documents), 8)
    queries = normalised(generator, draw(st.integers(1, 3)), draw(st.integers(1, 5)), 8)
    mask = generator.random(queries.shape[:2]) < 0.7
    return queries, mask, vectors, documents


@settings(max_examples=40)
@given(
    corpus=corpora(),
    k_prime=st.integers(1, 80),
    imputation=st.sampled_from(IMPUTATIONS),
    filtered=st.booleans(),
    documents_per_hit=st.sampled_from([0, 20]),
)
def test_equals_the_numpy_reference(corpus, k_prime, imputation, filtered, documents_per_hit):
    queries, mask, vectors, documents = corpus
    count = int(documents.max()) + 1
    allowed = np.arange(count) % 2 == 0 if filtered else np.ones(count, bool)
    expected = reference_xtr(queries, mask, vectors, documents, k_prime, imputation, 0.2, allowed)
    with mock.patch.object(scoring, "_DOCUMENTS_PER_HIT", documents_per_hit):
        ordinals, scores = run_xtr(
            queries, mask, vectors, documents, k_prime, count + 2,
            imputation=imputation, constant=0.2, allowed=allowed if filtered else None,
        )  # fmt: skip
    assert not np.isnan(scores).any()
    for row, answer in enumerate(expected):
        found = {d: s for d, s in zip(ordinals[row], scores[row], strict=True) if d >= 0}
        assert found.keys() == answer.keys()
        assert (ordinals[row, len(found) :] == -1).all()
        assert np.isneginf(scores[row, len(found) :]).all()
        for document, score in answer.items():
            np.testing.assert_allclose(found[document], score, rtol=0, atol=TOLERANCE)
        assert (np.diff(scores[row, : len(found)]) <= 0).all()


@settings(max_examples=20)
@given(corpus=corpora())
def test_retrieving_every_token_gives_f_colbert(corpus):
    queries, mask, vectors, documents = corpus
    mask[:, 0] = True
    ordinals, scores = run_xtr(queries, mask, vectors, documents, len(vectors), int(documents.max()) + 1)
    for row, (query, valid) in enumerate(zip(queries, mask, strict=True)):
        similarities = query[valid] @ vectors.T
        colbert = [similarities[:, documents == d].max(axis=1).mean() for d in range(documents.max() + 1)]
        np.testing.assert_allclose(scores[row], np.array(colbert)[ordinals[row]], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("documents_per_hit", [0, 20])
def test_ties_are_broken_by_document_order(monkeypatch, documents_per_hit):
    monkeypatch.setattr(scoring, "_DOCUMENTS_PER_HIT", documents_per_hit)
    vectors = np.tile(np.eye(4, dtype=np.float32)[:1], (6, 1))
    documents = np.array([0, 1, 1, 2, 3, 4], np.int32)
    ordinals, scores = run_xtr(
        np.eye(4, dtype=np.float32)[None, :1], np.ones((1, 1), bool), vectors, documents, 6, 5
    )
    assert ordinals.tolist() == [[0, 1, 2, 3, 4]]
    assert scores.tolist() == [[1.0] * 5]


def test_a_negative_similarity_that_was_retrieved_stays_negative():
    vectors = np.array([[-1.0, 0], [-0.5, 0.5]], np.float32)
    ordinals, scores = run_xtr(
        np.array([[[1.0, 0]]], np.float32), np.ones((1, 1), bool), vectors, np.array([0, 1], np.int32), 2, 2
    )
    assert ordinals.tolist() == [[1, 0]]
    np.testing.assert_allclose(scores, [[-0.5, -1.0]])


def test_a_query_without_tokens_finds_nothing():
    generator = np.random.default_rng(0)
    ordinals, scores = run_xtr(
        normalised(generator, 2, 3, 8), np.zeros((2, 3), bool), normalised(generator, 5, 8),
        np.arange(5, dtype=np.int32), 3, 2,
    )  # fmt: skip
    assert (ordinals == -1).all()
    assert np.isneginf(scores).all()


def test_rescoring_ranks_candidates_by_f_colbert():
    generator = np.random.default_rng(0)
    queries, vectors = normalised(generator, 3, 4, 8), normalised(generator, 40, 8)
    mask = np.array([[True] * 4, [True, False, True, False], [True] * 4])
    offsets = np.array([0, 10, 10, 25, 40], np.int32)
    ordinals = tf.constant([[3, 0, 2], [2, -1, -1], [1, 3, 0]])
    ranked = RankedDocuments(ordinals, tf.zeros([3, 3]))
    kept = tf.constant(vectors)
    found = tf.function(rescore_documents)(ranked, queries, mask, lambda ids: tf.gather(kept, ids), offsets)

    def colbert(query, document):
        own = vectors[offsets[document] : offsets[document + 1]]
        return (query @ own.T).max(axis=1).mean() if len(own) else -np.inf

    for row, candidates in enumerate(ordinals.numpy()):
        expected = {d: colbert(queries[row][mask[row]], d) for d in candidates if d >= 0}
        values = [expected.get(d, np.nan) for d in range(4)]
        assert_same_ranking(values, found.ordinals[row], 2 * TOLERANCE)
        ordered = sorted((value for value in expected.values() if np.isfinite(value)), reverse=True)
        ordered += [-np.inf] * (3 - len(ordered))
        np.testing.assert_allclose(found.scores[row], ordered, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("options", "sentence"), [({"imputation": "mean"}, "imputation"), ({"top_k": 0}, "top_k")]
)
def test_bad_options_are_refused_inside_the_graph(options, sentence):
    generator = np.random.default_rng(0)
    arguments = {"top_k": 2, **options}
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        run_in_graph(normalised(generator, 5, 8), normalised(generator, 1, 3, 8), **arguments)


def test_a_graph_that_knows_no_sizes_scores_one_query_and_several():
    generator = np.random.default_rng(3)
    documents = np.repeat(np.arange(6, dtype=np.int32), 4)
    vectors = normalised(generator, len(documents), 8)
    searcher = ExactSearcher(vectors)
    queries = normalised(generator, 3, 5, 8)
    mask = np.arange(5) < np.array([[5], [2], [4]])
    options = {"imputation": ["constant", "top_k_prime", "none"], "constant": [0.3, 0.0, 0.0]}
    specs = [
        tf.TensorSpec([None, None, 8], tf.float32),
        tf.TensorSpec([None, None], tf.bool),
        tf.TensorSpec([None], tf.string),
        tf.TensorSpec([None], tf.float32),
    ]

    @tf.function(input_signature=specs)
    def run(queries, mask, imputation, constant):
        rows = flatten_queries(queries, mask)
        # Searchers need the width of a row when the graph is built.
        assert rows.shape.as_list() == [None, 8]
        hits = searcher.search(rows, tf.constant(7), tf.constant(0))
        return score_documents(
            hits, mask, lambda tokens: tf.gather(documents, tokens), 6, 6, imputation, constant
        )

    for rows in (slice(0, 3), slice(0, 1), slice(1, 2), slice(2, 3)):
        imputations, constants = options["imputation"][rows], options["constant"][rows]
        ordinals, scores = run(queries[rows], mask[rows], imputations, constants)
        for query, (imputation, constant) in enumerate(zip(imputations, constants, strict=True)):
            row = range(3)[rows][query]
            [expected] = reference_xtr(
                queries[row, np.newaxis], mask[row, np.newaxis], vectors, documents, 7,
                imputation, constant, np.ones(6, bool),
            )  # fmt: skip
            found = {
                d: s for d, s in zip(ordinals[query].numpy(), scores[query].numpy(), strict=True) if d >= 0
            }
            assert found == pytest.approx(expected, rel=0, abs=TOLERANCE)


@tf.function
def run_in_graph(vectors, queries, top_k, imputation="top_k_prime"):
    similarities = tf.matmul(queries[0], vectors, transpose_b=True)
    best = tf.math.top_k(similarities, 3)
    hits = hits_from_padded(best.indices, best.values, tf.ones_like(best.indices, tf.bool))
    return score_documents(hits, tf.ones([1, 3], tf.bool), tf.identity, 5, top_k, imputation)
