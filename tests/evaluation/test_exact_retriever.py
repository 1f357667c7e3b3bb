"""Exact retrieval in memory against loops written out and the searcher of served models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.numbers import assert_same_ranking, rounding
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.encoded import MAX_TOKENS, CorpusTokens, check_size
from xtr_tf.evaluation.exact import ExactRetriever, Similarities
from xtr_tf.evaluation.token_analysis import COMPARED_IMPUTATIONS
from xtr_tf.vectors.query_encoder import EncodedQuery

DIM = 8
LONGEST_QUERY = 7
# An inner product of DIM terms, then a mean over the query's tokens.
TOLERANCE = rounding(DIM + LONGEST_QUERY)


def unit(generator: np.random.Generator, rows: int, dim: int = DIM) -> np.ndarray:
    vectors = generator.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def index() -> CorpusTokens:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 12, 40)
    documents = [Document(f"d{number}", "text") for number in range(40)]
    return CorpusTokens(documents, unit(generator, lengths.sum()), np.cumsum([0, *lengths]))


@pytest.fixture
def queries() -> list[EncodedQuery]:
    generator = np.random.default_rng(1)
    return [EncodedQuery(unit(generator, length)) for length in (3, 1, 0, LONGEST_QUERY)]


def naive_scores(index: CorpusTokens, query: np.ndarray, k_prime: int, imputation: str) -> list[float]:
    """f_XTR' as the paper defines it, one number at a time; NaN for a document that is not a candidate."""
    owners = index.document_of_token
    scores = []
    similarities = [[float(token @ vector) for vector in index.vectors] for token in query]
    retrieved = [sorted(range(len(row)), key=lambda j, row=row: -row[j])[:k_prime] for row in similarities]
    for document in range(len(index.documents)):
        terms = []
        for row, tokens in zip(similarities, retrieved, strict=True):
            own = [row[token] for token in tokens if owners[token] == document]
            missing = {"top_k_prime": row[tokens[-1]], "none": None}.get(imputation, imputation)
            terms.append((max(own), True) if own else (missing, False))
        if not any(found for _, found in terms):
            scores.append(float("nan"))
            continue
        counted = [float(value) for value, found in terms if found or imputation != "none"]
        scores.append(sum(counted) / len(counted))
    return scores


@pytest.mark.parametrize("imputation", COMPARED_IMPUTATIONS)
@pytest.mark.parametrize("k_prime", [1, 5, 60, 10_000])
def test_scores_are_the_papers(
    index: CorpusTokens, queries: list[EncodedQuery], k_prime: int, imputation: str
) -> None:
    [block] = ExactRetriever(index).blocks(queries)
    scores = block.xtr_scores(block.similarities.cutoffs(k_prime), *COMPARED_IMPUTATIONS[imputation])
    assert block.queries.tolist() == [0, 1, 3]
    for place, row in zip(block.queries, scores, strict=True):
        expected = naive_scores(index, queries[place].vectors, min(k_prime, index.num_tokens), imputation)
        assert np.where(np.isfinite(row), row, np.nan) == pytest.approx(expected, abs=TOLERANCE, nan_ok=True)


def test_rankings_under_both_functions(index: CorpusTokens, queries: list[EncodedQuery]) -> None:
    xtr, colbert = ExactRetriever(index).search(queries, k_prime=5, depth=12)
    for place, query in enumerate(queries):
        if not len(query.vectors):
            assert (xtr.ordinals[place] == -1).all()
            assert (colbert.ordinals[place] == -1).all()
            continue
        expected = naive_scores(index, query.vectors, 5, "top_k_prime")
        assert_same_ranking(expected, xtr.ordinals[place], 2 * TOLERANCE)
        similarities = query.vectors @ index.vectors.T
        maxima = [similarities[:, first:last].max(1).mean() for first, last in _bounds(index)]
        assert_same_ranking(maxima, colbert.ordinals[place], 2 * TOLERANCE)
        assert colbert.scores[place] == pytest.approx(np.sort(maxima)[::-1][:12], abs=TOLERANCE)


def by_document(ordinals: np.ndarray, scores: np.ndarray, count: int) -> np.ndarray:
    """The scores of a ranking in the order of documents, NaN for those that were not ranked."""
    placed = np.full(count, np.nan)
    placed[ordinals[ordinals >= 0]] = scores[ordinals >= 0]
    return placed


def _bounds(index: CorpusTokens) -> list[tuple[int, int]]:
    return list(zip(index.offsets[:-1], index.offsets[1:], strict=True))


def test_with_every_token_retrieved_both_functions_agree(
    index: CorpusTokens, queries: list[EncodedQuery]
) -> None:
    xtr, colbert = ExactRetriever(index).search(queries, k_prime=10_000, depth=40)
    assert xtr.scores == pytest.approx(colbert.scores, abs=TOLERANCE)
    for ordinals, *expected in zip(xtr.ordinals, colbert.ordinals, colbert.scores, strict=True):
        assert_same_ranking(by_document(*expected, count=40), ordinals, 2 * TOLERANCE)


@pytest.mark.parametrize("count", [1, 7, 100, 10_000])
def test_top_tokens_are_those_of_a_full_sort(index: CorpusTokens, count: int) -> None:
    similarities = Similarities(index, unit(np.random.default_rng(2), 5))
    tokens, scores = similarities.top_tokens(count)
    expected = np.argsort(-similarities.values, axis=1, kind="stable")[:, :count]
    assert (tokens == expected).all()
    assert (scores == np.take_along_axis(similarities.values, expected, axis=1)).all()
    assert (similarities.cutoffs(count) == scores[:, -1]).all()


def test_ties_at_the_cutoff_are_ranked_by_token(index: CorpusTokens) -> None:
    same = CorpusTokens(index.documents, np.ones_like(index.vectors), index.offsets)
    tokens, _ = Similarities(same, np.ones((1, 8), np.float32)).top_tokens(3)
    assert tokens.tolist() == [[0, 1, 2]]


def test_memory_decides_how_many_queries_share_a_block(
    index: CorpusTokens, queries: list[EncodedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ExactRetriever(index).search(queries, 5, 40)
    monkeypatch.setattr("xtr_tf.evaluation.exact._MAX_SIMILARITIES", 1)
    blocks = [block.queries.tolist() for block in ExactRetriever(index).blocks(queries)]
    assert blocks == [[0, 1], [3]], "the longest query decides"
    parts = ExactRetriever(index).search(queries, 5, 10)
    for one, other in zip(whole, parts, strict=True):
        for ordinals, *expected in zip(other.ordinals, one.ordinals, one.scores, strict=True):
            assert_same_ranking(by_document(*expected, count=40), ordinals, 2 * TOLERANCE)


def test_agrees_with_the_searcher_and_scoring_of_served_models(
    atlas: Dataset, atlas_index: CorpusTokens, loaded_encoder: Any
) -> None:
    import tensorflow as tf

    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.scoring.token_owners import TokenOwners
    from xtr_tf.scoring.xtr import score_documents

    owners = TokenOwners(atlas_index.document_of_token)
    encoded = loaded_encoder.encode_queries([query.text for query in atlas.queries[:20]])
    ranking, _ = ExactRetriever(atlas_index).search(encoded, k_prime=200, depth=300)
    searcher = ExactSearcher(atlas_index.vectors)
    dim = atlas_index.vectors.shape[1]
    for place, query in enumerate(encoded):
        hits = searcher.search(tf.constant(query.vectors), tf.constant(200), tf.constant(0))
        mask = tf.ones([1, len(query.vectors)], tf.bool)
        expected = score_documents(hits, mask, owners.look_up, 300, tf.constant(20))
        tolerance = rounding(dim + len(query.vectors))
        assert ranking.scores[place, :20] == pytest.approx(expected.scores.numpy()[0], abs=tolerance)
        ours = by_document(ranking.ordinals[place], ranking.scores[place], count=300)
        assert_same_ranking(ours, expected.ordinals.numpy()[0], 2 * tolerance)


def test_loaded_encoder_tells_pieces_and_places(
    tiny_corpus: Any, atlas_index: CorpusTokens, loaded_encoder: Any
) -> None:
    assert len(atlas_index.documents) == 300
    assert np.diff(atlas_index.offsets).max() > 64, "long documents are split, not cut"
    assert np.abs(np.linalg.norm(atlas_index.vectors, axis=1) - 1).max() < 1e-3
    text = atlas_index.documents[0].full_text
    pieces = tiny_corpus.tokenizer.pieces(atlas_index.pieces[:5]).numpy()
    for piece, (start, end) in zip(pieces, atlas_index.spans[:5], strict=True):
        assert piece.decode().replace("▁", " ").strip() == text[start:end].lower().strip() != ""
    encoded = loaded_encoder.encode_queries(["How high is it?", "", "Mount Everest"])
    assert len(encoded[1].vectors) == 0
    assert "".join(encoded[2].words).replace("▁", " ").strip().startswith("mount everest")
    assert len(encoded[2].pieces) == len(encoded[2].vectors) == len(encoded[2].words)


def test_impossible_indexes_are_refused(index: CorpusTokens) -> None:
    with pytest.raises(InputError, match="at least one token"):
        CorpusTokens(index.documents, index.vectors, np.zeros(41, int))
    with pytest.raises(InputError, match="must have the same number of tokens"):
        CorpusTokens(index.documents, index.vectors[:-1], index.offsets)
    with pytest.raises(InputError, match="too many for exact search in memory"):
        check_size(MAX_TOKENS + 1, "wiki")
