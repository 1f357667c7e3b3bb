"""Search and reranking over HTTP: a real server, real models, and requests as people type them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks

from serving.client import Client, SearchOptions
from tests.support.numbers import rounding

QUERY = "highest mountain on earth"
DOCUMENTS = ["The Nile flows north.", "Mount Everest is the highest mountain on earth.", "  ", "東京"]
SCORED = rounding(32 + 16)
ALLOWED = {"authorization": "Bearer secret-of-the-tests"}


@pytest.fixture(scope="module")
def search(retriever_server):
    """Asks the model `whole` and returns the documents of the only query."""

    def ask(**body):
        status, answer = retriever_server.rest("/v1/search", {"model": "whole", "query": QUERY, **body})
        assert status == 200, answer
        return answer["results"][0]["documents"]

    return ask


def test_answers_are_the_signatures(retriever_server):
    body = {"model": "whole", "queries": [QUERY, "東京"], "top_k": 3, "k_prime": 50, "fields": ["*"]}
    status, answer = retriever_server.rest("/v1/search", body)
    assert status == 200
    assert (answer["model"], answer["version"]) == ("whole", 1)
    assert answer["milliseconds"] > 0
    options = SearchOptions(top_k=3, k_prime=50)
    with Client(retriever_server.target, "whole") as client:
        expected = client.search_batch([QUERY, "東京"], options, "search", ("texts", "fields"))
    for result, other in zip(answer["results"], expected, strict=True):
        assert result["query"] == other.query
        assert len(result["documents"]) == 3
        for document, hit in zip(result["documents"], other.documents, strict=True):
            assert document["score"] == pytest.approx(hit.score, abs=SCORED)
            del document["score"]
            assert document == {
                "id": hit.id,
                "title": hit.title,
                "language": hit.language,
                "text": hit.text,
                "fields": json.loads(hit.fields),
            }


def test_only_requested_fields_come_back(search):
    assert set(search()[0]) == {"id", "score", "title", "language"}
    assert set(search(fields=[])[0]) == {"id", "score"}
    document = search(fields=["text", "number"])[0]
    assert set(document) == {"id", "score", "text", "fields"}
    assert set(document["fields"]) == {"number"}
    assert set(search(alpha=0.5, fields=[])[0]) == {"id", "score", "xtr_score", "lexical_score"}


def test_filters_and_thresholds(search):
    found = search(filter="number<20;group=g1", fields=["*"], top_k=10)
    assert found
    assert all(hit["fields"]["number"] < 20 and hit["fields"]["group"] == "g1" for hit in found)
    assert {hit["language"] for hit in search(languages=["de", "fr"])} <= {"de", "fr"}
    least = search()[2]["score"]
    assert len(search(min_score=least - SCORED)) == 3
    assert search(filter="number>100000") == []


def test_ways_of_scoring(search):
    by_words = search(alpha=1.0)
    assert [hit["score"] for hit in by_words] != [hit["score"] for hit in search()]
    assert search(alpha=0.5, fusion="rrf")[0]["score"] < 1
    assert search(top_k=3.0, rescore=5)  # 3.0 is a whole number in JSON Schema
    explained = search(explain=True, fields=["title", "text"], k_prime=20)[0]
    mean = sum(match["score"] for match in explained["matches"]) / len(explained["matches"])
    assert explained["score"] == pytest.approx(mean, abs=SCORED)


def test_documents_are_reranked(retriever_server):
    given = [{"text": text, "source": "x"} if at % 2 else text for at, text in enumerate(DOCUMENTS)]
    body = {"model": "whole", "query": QUERY, "documents": given, "return_documents": True}
    status, answer = retriever_server.rest("/v1/rerank", body, {"x-request-id": "mine"})
    assert status == 200, answer
    assert answer["id"] == "mine"
    results = answer["results"]
    assert sorted(result["index"] for result in results) == [0, 1, 2, 3]
    assert all(result["document"]["text"] == DOCUMENTS[result["index"]] for result in results)
    assert not any(result["truncated"] for result in results)
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert (results[-1]["index"], results[-1]["relevance_score"]) == (2, -1.0)
    inputs = {"query": [QUERY], "documents": [DOCUMENTS]}
    scored = retriever_server.rest("/v1/models/whole:predict", {"signature_name": "score", "inputs": inputs})[
        1
    ]["outputs"]["scores"][0]
    for result in results[:-1]:
        assert result["relevance_score"] == pytest.approx(scored[result["index"]], abs=SCORED)
    first = retriever_server.rest("/v1/rerank", {**body, "top_n": 1, "return_documents": False})[1]
    assert [set(result) for result in first["results"]] == [{"index", "relevance_score", "truncated"}]


def test_long_documents_are_accepted_and_reported_as_cut(retriever_server):
    body = {"model": "whole", "query": QUERY, "documents": ["Nile " * 10_000, "Nile"]}
    results = retriever_server.rest("/v1/rerank", body)[1]["results"]
    assert {result["index"]: result["truncated"] for result in results} == {0: True, 1: False}
    body["documents"] = ["a" * 65_537]
    status, answer = retriever_server.rest("/v1/rerank", body)
    assert (status, answer["error"]) == (
        400,
        "A document may have at most 65536 bytes on this server. Received: 65537.",
    )


@pytest.fixture(scope="module")
def only_model(start_server, retriever_base):
    """A server with one model, which clients need not name, and a token."""
    file = retriever_base / "tokens.txt"
    file.write_text("secret-of-the-tests\n")
    with start_server("--model-base", retriever_base / "whole", "--token-file", file) as started:
        yield started


def test_the_only_model_need_not_be_named(only_model):
    status, answer = only_model.rest("/v1/search", {"query": QUERY}, ALLOWED)
    assert (status, answer["model"]) == (200, "default")
    # As clients of Text Embeddings Inference ask.
    body = {"query": QUERY, "texts": DOCUMENTS[:2], "return_text": True, "raw_scores": False}
    status, answer = only_model.rest("/rerank", body, ALLOWED)
    assert status == 200
    assert sorted(result["text"] for result in answer) == sorted(DOCUMENTS[:2])
    assert answer[0]["score"] >= answer[1]["score"]


def test_tokens_are_asked_for(only_model):
    for path in ("/v1/search", "/v1/rerank", "/v2/rerank", "/rerank"):
        assert only_model.rest(path, {"query": QUERY})[0] == 401
    status, document = only_model.rest("/openapi.json")
    assert status == 200
    assert document["security"] == [{"token": []}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"query": QUERY}, "set `model` to one of shard0, shard1, shard2, whole."),
        ({"model": "whole"}, "A request needs either `query` or `queries`. Received: model."),
        ({"model": "whole", "query": "a", "queries": ["a"]}, "Received: model, query, queries."),
        ({"model": "whole", "query": 7}, "`query` must be a string. Received: 7."),
        ({"model": "whole", "queries": []}, "`queries` must be a list of 1 to 256, each a string."),
        ({"model": "whole", "queries": ["a", 1]}, "each a string. Received: 1 at position 1."),
        ({"model": "whole", "queries": ["a"] * 257}, "1 to 256, each a string. Received: 257 of them."),
        ({"model": "whole", "query": "a", "topk": 3}, "did you mean `top_k`? Received: `topk`."),
        ({"model": "whole", "query": "a", "top_k": 0}, "a whole number between 1 and 10000. Received: 0."),
        ({"model": "whole", "query": "a", "top_k": True}, "Received: True."),
        ({"model": "whole", "query": "a", "alpha": 1.5}, "`alpha` must be a number between 0 and 1."),
        ({"model": "whole", "query": "a", "min_score": float("nan")}, "`min_score` must be a number"),
        ({"model": "whole", "query": "a", "fusion": "max"}, "`fusion` must be one of weighted, rrf."),
        ({"model": "whole", "query": "a", "explain": True, "rescore": 9}, "leave out `rescore`"),
        ({"model": "whole", "query": "a", "filter": "year>2"}, "year"),
        ({"model": "whole", "query": "a", "filter": "number=1;" * 1200}, "A text may have at most 8192"),
        ({"model": "whole", "query": " "}, "Every query must contain text"),
        ({"model": "shard0", "query": "a"}, "Model shard0 has no signature `search` of a retriever."),
    ],
)
def test_bad_searches_are_one_sentence(retriever_server, body, message):
    status, answer = retriever_server.rest("/v1/search", body)
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"query": "a"}, "Received: model, query."),
        ({"query": "a", "documents": []}, "`documents` must be a list of 1 to 1024"),
        (
            {"query": "a", "documents": ["b", {"title": "c"}]},
            "each a string or an object with `text`. Received: {'title': 'c'} at position 1.",
        ),
        ({"query": "a", "documents": ["b"], "top_n": 0}, "`top_n` must be a whole number between 1"),
        ({"query": "", "documents": ["b"]}, "Every query must contain text"),
        ({"query": "a", "documents": ["b"], "model": "shard0"}, "Model shard0 has no signature `score`"),
    ],
)
def test_bad_rerankings_are_one_sentence(retriever_server, body, message):
    status, answer = retriever_server.rest("/v1/rerank", {"model": "whole", **body})
    assert status == 400
    assert message in answer["error"]


def test_what_a_model_does_not_keep_is_refused(server):
    """The toy model has no texts, no fields, and few parameters."""
    assert server.rest("/v1/search", {"query": "a"})[0] == 200
    for body, message in (
        ({"fields": ["text"]}, "The model keeps no texts; leave them out of `fields`"),
        ({"fields": ["year"]}, "The model keeps no fields"),
        ({"alpha": 0.5}, "`alpha` is not a parameter of `search` of model default; leave it out."),
    ):
        status, answer = server.rest("/v1/search", {"query": "a", **body})
        assert status == 400
        assert message in answer["error"]
    assert server.rest("/v1/search", {"query": "a", "model": "none"})[0] == 404


def test_other_methods_are_refused(retriever_server):
    address = f"http://127.0.0.1:{retriever_server.rest_port}/v1/search"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, timeout=10)
    assert (caught.value.code, caught.value.headers["allow"]) == (405, "POST")


# What the model refuses (a filter of an unknown field) is no mistake of the document.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]


@pytest.mark.parametrize("path", ["/v1/search", "/v1/rerank", "/v2/rerank", "/rerank"])
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_the_server_does_what_its_openapi_document_says(only_model, path, mode):
    """Valid and invalid requests generated from the document are answered or refused as it says."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{only_model.rest_port}/openapi.json")
    sound = mode is schemathesis.GenerationMode.POSITIVE
    seen = set()

    @settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=schema[path]["POST"].as_strategy(generation_mode=mode))
    def run(case):
        if sound:
            case.body = {name: value for name, value in case.body.items() if name not in ("model", "filter")}
        response = case.call(headers=ALLOWED, timeout=60)
        seen.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    run()
    # The invalid part may be a header, such as the token.
    assert (200 if sound else 400) in seen
