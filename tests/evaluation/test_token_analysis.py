"""The paper's analysis: formulas on the paper's numbers, counts on a corpus whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import Document
from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.token_analysis import (
    K_PRIMES,
    TokenAnalysis,
    analyse_tokens,
    colbert_flops,
    gathered_bytes,
    xtr_flops,
)
from xtr_tf.evaluation.worked_examples import RANKS, work_examples
from xtr_tf.vectors.query_encoder import EncodedQuery


def test_costs_are_the_papers() -> None:
    colbert = colbert_flops(query_tokens=16, k_prime=100, document_tokens=55, dim=128)
    xtr = xtr_flops(query_tokens=16, k_prime=100, retrieved_tokens=2.5)
    assert round(colbert / 1e9, 2) == 0.36
    assert round(xtr / 1e6, 2) == 0.09
    assert round(colbert / xtr, -3) == 4_000
    assert round(gathered_bytes(16, 1000, 55, 128) / 1e6, -1) == 450


DIM = 4


def one_hot(*places: int) -> np.ndarray:
    return np.eye(DIM, dtype=np.float32)[list(places)]


@pytest.fixture
def known() -> tuple[ExactRetriever, Dataset, list[EncodedQuery]]:
    """Three documents of two tokens each, and two queries whose neighbours can be told by hand."""
    documents = [Document("a", "x y"), Document("b", "x z"), Document("c", "y z")]
    mixed = np.array([[0.8, 0.6, 0, 0]], np.float32)
    vectors = np.concatenate([one_hot(0, 1), mixed, one_hot(2), one_hot(1, 3)])
    index = CorpusTokens(
        documents, vectors, np.array([0, 2, 4, 6]), np.array([10, 11, 10, 12, 11, 12]), np.zeros((6, 2), int)
    )
    queries = (Query("q1", "x"), Query("q2", "y z"))
    dataset = Dataset("known", queries, {"q1": {"b": 1, "absent": 1}, "q2": {"c": 2, "a": 0}}, documents)
    encoded = [
        EncodedQuery(one_hot(0), np.array([10]), ("x",)),
        EncodedQuery(one_hot(1, 3), np.array([11, 99]), ("y", "z")),
    ]
    return ExactRetriever(index), dataset, encoded


def test_probabilities_by_rank(known: Any) -> None:
    analysis = analyse_tokens(*known, k_prime=3)
    # x: a.0 (1.0), b.0 (0.8), then ties at 0; y: a.1 (1.0), c.0 (1.0), b.0 (0.6); z: c.1 (1.0), ties.
    assert analysis.query_tokens == 3
    assert analysis.gold_probability[:2] == pytest.approx([1 / 3, 2 / 3])
    # x finds piece 10 twice, y piece 11 twice, z (piece 99) never itself.
    assert analysis.lexical_probability[:2] == pytest.approx([2 / 3, 2 / 3])
    assert len(analysis.gold_probability) == 3


def test_histogram_counts_what_was_retrieved(known: Any) -> None:
    analysis = analyse_tokens(*known, k_prime=3)
    widths = np.diff(analysis.histogram_edges)
    assert np.sum(analysis.gold_density * widths) == pytest.approx(1)
    assert np.sum(analysis.other_density * widths) == pytest.approx(1)
    centres = (np.array(analysis.histogram_edges[:-1]) + analysis.histogram_edges[1:]) / 2
    bin_width = 0.025
    assert centres @ (analysis.gold_density * widths) == pytest.approx((0.8 + 1 + 1) / 3, abs=bin_width)
    assert centres @ (analysis.other_density * widths) == pytest.approx((1 + 1 + 0.6) / 6, abs=bin_width)


def test_costs_are_measured(known: Any) -> None:
    cost = analyse_tokens(*known, k_prime=2).cost
    assert cost["query_tokens"] == pytest.approx(1.5)
    assert cost["document_tokens"] == pytest.approx(2)
    # q1 retrieves one token each of a and b; q2 a.1, c.0, c.1 and one of the ties, which is a's first.
    assert cost["candidates"] == pytest.approx(2)
    assert cost["retrieved_tokens"] == pytest.approx((1 + 2) / 2)
    assert cost["colbert_flops"] == pytest.approx(colbert_flops(1.5, 2, 2, DIM))
    assert cost["ratio"] == pytest.approx(cost["colbert_flops"] / xtr_flops(1.5, 2, 1.5))


@pytest.fixture(scope="module")
def atlas_analysis(atlas: Dataset, atlas_index: CorpusTokens, loaded_encoder: Any) -> TokenAnalysis:
    sample = atlas.sample(30)
    encoded = loaded_encoder.encode_queries([query.text for query in sample.queries])
    return analyse_tokens(ExactRetriever(atlas_index), sample, encoded, k_prime=100)


def test_larger_k_prime_comes_closer_to_colbert(
    atlas_analysis: TokenAnalysis, atlas_index: CorpusTokens
) -> None:
    assert list(atlas_analysis.k_prime_metrics) == [k for k in K_PRIMES if k <= atlas_index.num_tokens / 20]
    metrics = atlas_analysis.k_prime_metrics
    gaps = {k: abs(metrics[k]["Recall@100"] - atlas_analysis.colbert_metrics["Recall@100"]) for k in metrics}
    assert gaps[max(gaps)] <= gaps[min(gaps)]
    assert atlas_analysis.imputation_metrics["top_k_prime"] == metrics[100]


def test_worked_examples(atlas: Dataset, atlas_index: CorpusTokens, loaded_encoder: Any) -> None:
    encoded = loaded_encoder.encode_queries([query.text for query in atlas.queries[:3]])
    examples = work_examples(ExactRetriever(atlas_index), atlas, encoded, count=2)
    assert [example.query for example in examples] == [query.text for query in atlas.queries[:2]]
    for example in examples:
        assert [token.rank for token in example.tokens] == list(RANKS)
        scores = [token.score for token in example.tokens]
        assert scores == sorted(scores, reverse=True)
        assert example.token.lower() in example.query.lower()
        documents = {document.id: document for document in atlas_index.documents}
        for token in example.tokens:
            text = " ".join(documents[token.document].full_text.split())
            assert f"{token.before.lstrip('…')}{token.token}{token.after.rstrip('…')}".strip() in text
            assert len(token.before) <= 71
