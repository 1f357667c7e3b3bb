"""An index in parts answers like the whole index."""

from __future__ import annotations

import pytest

from serving.client import Client, ClientError, SearchOptions
from serving.client.sharded import ShardedClient

QUERIES = [
    "highest mountain on earth",
    "wie lang ist der Nil?",
    "東京",
    "the",
    "a river in Asia and its source",
]
SHARDS = ("shard0", "shard1", "shard2")
OPTIONS = [
    SearchOptions(k_prime=100, top_k=10),
    SearchOptions(k_prime=1, top_k=10),
    SearchOptions(k_prime=7, top_k=3, imputation="zero"),
    SearchOptions(k_prime=50, top_k=20, imputation="constant", constant=0.2),
    SearchOptions(k_prime=50, top_k=20, imputation="none"),
    SearchOptions(k_prime=10**5, top_k=10),  # everything: f_ColBERT
    SearchOptions(k_prime=100, top_k=10, languages=["de", "ja"]),
    SearchOptions(k_prime=100, top_k=10, languages=["xx"]),
    SearchOptions(k_prime=50, top_k=10, filter="number>=12;group=g0|g2", min_score=0.1),
    SearchOptions(k_prime=50, top_k=10, token_weights="idf"),
    SearchOptions(k_prime=50, top_k=10, token_weights="idf", imputation="none"),
]


@pytest.fixture(scope="module")
def whole(retriever_server):
    with Client(retriever_server.target, "whole", timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def sharded(retriever_server):
    with ShardedClient([Client(retriever_server.target, name, timeout=30) for name in SHARDS]) as client:
        yield client


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_parts_answer_as_the_whole(whole, sharded, options):
    for query in QUERIES:
        expected, merged = whole.search(query, options), sharded.search(query, options)
        assert [document.id for document in merged.documents] == [
            document.id for document in expected.documents
        ]
        assert [document.score for document in merged.documents] == pytest.approx(
            [document.score for document in expected.documents], abs=2e-6
        )
        assert [(d.title, d.language) for d in merged.documents] == [
            (d.title, d.language) for d in expected.documents
        ]
    assert merged.versions == (1, 1, 1)


def test_a_missing_shard_is_an_error_and_never_a_partial_answer(retriever_server):
    clients = [Client(retriever_server.target, name, timeout=30) for name in ("shard0", "absent")]
    with ShardedClient(clients) as sharded, pytest.raises(ClientError, match="NOT_FOUND"):
        sharded.search("a")
    with pytest.raises(ValueError, match="at least one server"):
        ShardedClient([])


def test_bad_requests_are_passed_on(sharded):
    with pytest.raises(ClientError, match="`k_prime` must be at least 1"):
        sharded.search("a", SearchOptions(k_prime=0))
    with pytest.raises(ValueError, match="cannot rescore"):
        sharded.search("a", SearchOptions(rescore=20))
    with pytest.raises(ValueError, match="merges token hits, which have no BM25"):
        sharded.search("a", SearchOptions(alpha=0.5))
    with pytest.raises(ValueError, match=r"`token_weights` must be one of none, idf"):
        sharded.search("a", SearchOptions(token_weights="tf"))
    with pytest.raises(ValueError, match=r"`imputation` must be one of .* Received: 'mean'"):
        sharded.search("a", SearchOptions(imputation="mean"))
