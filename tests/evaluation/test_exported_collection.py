"""Partitions, searched one after the other, give the rankings of the whole index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numbers import network_rounding, rounding
from xtr_tf.collections.dataset import Query
from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.evaluation.evaluate import open_model
from xtr_tf.evaluation.exported_collection import ExportedCollection
from xtr_tf.evaluation.exported_model import search_all
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.session import RetrieverSession
from xtr_tf.scoring.fusion_reference import steepness

QUERIES = [
    Query(f"q{number}", text)
    for number, text in enumerate(
        ["highest mountain on earth", " ", "wie lang ist der Nil?", "東京", "the", *["longest river"] * 40]
    )
]
# Encoded in batches of other shapes, and scored by sums of 32 products and 16 tokens.
CLOSE = network_rounding(700) + rounding(32 + 16)


@pytest.fixture(scope="module")
def whole(directories: Path) -> RetrieverSession:
    parts = (directories / name for name in ("encoder", "vectors", "exact"))
    return RetrieverSession(assemble_retriever(*parts, SearchDefaults(100, 5)).retriever)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"k_prime": 1},
        {"k_prime": 7},
        {"k_prime": 50_000},  # everything: f_ColBERT
        {"k_prime": 50, "token_weights": "idf"},
        {"k_prime": 50, "alpha": 1.0},
        {"k_prime": 7, "alpha": 0.5},
    ],
)
def test_a_collection_ranks_as_one_index_does(
    collection_base: Path, whole: RetrieverSession, given: dict[str, Any]
) -> None:
    run = ExportedCollection(collection_base).search("collection", QUERIES, 20, **given)
    request = {name: [value] for name, value in {"top_k": 20, **given}.items()}
    expected = search_all(whole, "whole", QUERIES, request)
    assert "q1" not in run
    close = CLOSE * _moved(whole, given.get("alpha", 0.0))
    for query in QUERIES:
        if query.id == "q1":
            continue
        assert run.scores(query.id) == pytest.approx(expected.scores(query.id), abs=close)
        # Documents whose scores are within rounding may swap places.
        scores = dict(zip(expected.documents(query.id), expected.scores(query.id), strict=True))
        floor = min(scores.values(), default=0)
        for document, score in zip(run.documents(query.id), run.scores(query.id), strict=True):
            assert scores.get(document, floor) == pytest.approx(score, abs=2 * close)


def _moved(whole: RetrieverSession, alpha: float) -> float:
    """How much further than f_XTR' a fused score may move."""
    texts = [query.text for query in QUERIES if query.id != "q1"]
    found = whole.run("search", {"query": texts, "alpha": [1.0], "top_k": [1000]})
    return 1 + alpha * steepness(found["lexical_scores"])


def test_weights_of_queries_are_those_of_all_documents(
    collection_base: Path, whole: RetrieverSession
) -> None:
    texts = [query.text for query in QUERIES[:4]]
    encoded = ExportedCollection(collection_base).encode_queries(texts, "idf")
    expected = whole.run("encode_query", {"query": texts})
    assert len(encoded[1].vectors) == 0
    for row in (0, 2, 3):
        mask = expected["mask"][row]
        np.testing.assert_allclose(encoded[row].weights, expected["idf"][row][mask], rtol=1e-6)
        np.testing.assert_allclose(encoded[row].vectors, expected["encodings"][row][mask], rtol=0, atol=CLOSE)


def test_a_collection_is_opened_as_a_model_is(collection_base: Path, tmp_path: Path) -> None:
    assert open_model(collection_base).kind == "exported model, its own index"
    collection = ExportedCollection(collection_base)
    assert (collection.has_lexical, collection.default_alpha) == (True, 0.0)
    collection.has_lexical = False
    with pytest.raises(InputError, match="`alpha` needs an index with BM25"):
        collection.search("both", QUERIES, 10, alpha=0.5)
    with pytest.raises(InputError, match="A model is the directory of an encoder"):
        open_model(tmp_path)
