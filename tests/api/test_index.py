"""Documents in, hits and explanations out; bad input is one sentence and changes nothing."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest

from tests.support.numbers import rounding
from xtr_tf.api.index import Index
from xtr_tf.api.live_index import LiveIndex
from xtr_tf.api.loading import load
from xtr_tf.api.model import Model
from xtr_tf.api.training import train
from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig, SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.retriever.request import SearchRequest

from .conftest import PASSAGES

QUESTION = "How deep is Lake Baikal?"


def keywords(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def test_every_parameter_of_a_request_is_a_keyword() -> None:
    assert keywords(Index.search) == set(SearchRequest._fields)
    assert keywords(Index.explain) == set(SearchRequest._fields) - {"rescore"}
    defaults = set(SearchDefaults.__dataclass_fields__)
    assert keywords(LiveIndex.save) >= defaults
    for name in defaults:
        assert inspect.signature(LiveIndex.save).parameters[name].default == getattr(SearchDefaults, name)


def test_every_setting_of_encoding_and_indexing_is_a_keyword_with_its_default() -> None:
    given = inspect.signature(Model.index).parameters
    for config, dtype in ((EncodingConfig, "vectors_dtype"), (IndexConfig, "index_dtype")):
        for field in dataclasses.fields(config):
            parameter = given[dtype if field.name == "dtype" else field.name]
            expected = {"kind": "auto", "fields": None}.get(field.name, field.default)
            assert parameter.default == expected, field.name


@pytest.mark.parametrize(
    "function", [Index.search, Index.explain, LiveIndex.save, Model.index, Model.evaluate, load, train]
)
def test_every_keyword_is_documented(function: Any) -> None:
    for name in keywords(function):
        assert f"{name}: " in (function.__doc__ or ""), name


def test_the_best_document_comes_first(index: Any) -> None:
    hits = index.search(QUESTION, top_k=2)
    assert hits.ids[0] == "baikal"
    assert len(hits) == 2
    best = hits[0]
    assert (best.title, best.text, best.language) == ("Lake Baikal", "Baikal is 1,642 m deep.", "en")
    assert hits[0].score > hits[1].score


def test_a_list_of_queries_gives_a_list(index: Any) -> None:
    queries = [QUESTION, "Wie lang ist der Nil?", "茶"]
    assert [hits.ids[0] for hits in index.search(queries, top_k=1)] == ["baikal", "nil", "tea"]
    assert [hits.query for hits in index.search(queries, top_k=1)] == queries
    assert index.search([]) == []


def test_more_queries_than_are_asked_at_once(index: Any) -> None:
    answers = index.search([QUESTION] * 40, top_k=1)
    assert {hits.ids[0] for hits in answers} == {"baikal"}
    assert len(answers) == 40


def test_with_a_graph_and_without_the_answers_are_the_same(index: Any) -> None:
    from xtr_tf.retriever.session import _CALLS_WITHOUT_GRAPH

    session = index._session
    before = session._calls["search"]
    session._calls["search"] = 0
    without = index.search(QUESTION)
    session._calls["search"] = _CALLS_WITHOUT_GRAPH
    with_graph = index.search(QUESTION)
    session._calls["search"] = before
    assert without.ids == with_graph.ids
    scores = [[hit.score for hit in hits] for hits in (without, with_graph)]
    np.testing.assert_allclose(*scores, rtol=0, atol=rounding(index.model.manifest.encoder.projection_dim))


def test_the_parameters_of_a_request_count(index: Any) -> None:
    assert index.search(QUESTION, languages="de").ids == ["nil"]
    assert set(index.search(QUESTION, languages=["de", "ja"]).ids) == {"nil", "tea"}
    assert index.search(QUESTION, languages=["xx"]).ids == []
    by_imputation = {
        name: index.search("Baikal or Everest", k_prime=1, imputation=name)[0].score
        for name in ("top_k_prime", "zero", "none")
    }
    assert len(set(by_imputation.values())) == 3
    exact = index.search(QUESTION, rescore=10)
    expected = index.model.score(QUESTION, [PASSAGES[0]])[0]
    dim = index.model.manifest.encoder.projection_dim
    assert exact[0].score == pytest.approx(expected, abs=rounding(dim))


def test_an_explanation_says_which_token_answered_which(index: Any) -> None:
    [found] = index.explain(QUESTION, top_k=1)
    assert found.hit.id == "baikal"
    assert found.full_text == "Lake Baikal Baikal is 1,642 m deep."
    deep = next(match for match in found.matches if match.token == "▁deep")
    assert deep.retrieved
    assert deep.span is not None
    assert "deep" in found.full_text[slice(*deep.span)]
    mean = math.fsum(match.score for match in found.matches) / len(found.matches)
    assert found.hit.score == pytest.approx(mean, abs=rounding(len(found.matches)))


def test_documents_are_added_and_deleted_at_once(model: Any) -> None:
    index = model.index(["Baikal is 1,642 m deep.", "The Nile is 6,650 km long."], progress=False)
    assert index.ids == ["0", "1"]
    index.add(["The Aral Sea was 68 m deep.", {"id": "1", "text": "The Nile flows north."}], progress=False)
    assert index.ids == ["0", "2", "1"]
    assert index.search("How deep was the Aral Sea?")[0].id == "2"
    assert "north" in index.search("Where does the Nile flow?")[0].text
    index.delete("2")
    assert "2" not in index
    assert set(index.search("How deep was the Aral Sea?").ids) == {"0", "1"}
    index.add(["Lake Chad is shallow."], progress=False)
    assert index.ids == ["0", "1", "3"]


def test_changes_give_the_same_as_indexing_again(model: Any) -> None:
    changed = model.index(PASSAGES[:2], kind="scann", progress=False)
    changed.add(PASSAGES[2:], progress=False)
    changed.delete(["nil"])
    fresh = model.index([PASSAGES[0], *PASSAGES[2:]], kind="exact", progress=False)
    assert changed.ids == fresh.ids
    assert changed.search(QUESTION).ids[0] == fresh.search(QUESTION).ids[0] == "baikal"


def test_an_index_that_grows_changes_its_kind(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tiny_model.index([PASSAGES[0]], progress=False)
    assert "exact" in repr(index)
    monkeypatch.setattr("xtr_tf.index.rules.EXACT_TOKENS", 20)
    index.add(PASSAGES[1:], progress=False)
    assert "scann" in repr(index)
    assert len(index.search("Everest")) == len(PASSAGES)


def frame(records: list[dict[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(records)


@pytest.mark.parametrize(
    "give",
    [
        lambda records: records,
        lambda records: iter(records),
        lambda records: (record for record in records),
        lambda records: [Document(one["id"], one["text"], one["title"], one["language"]) for one in records],
        frame,
    ],
    ids=["list", "iterator", "generator", "documents", "data frame"],
)
def test_documents_may_be_given_in_many_forms(tiny_model: Any, give: Any) -> None:
    index = tiny_model.index(give(PASSAGES), progress=False)
    assert index.ids == [record["id"] for record in PASSAGES]
    found = index.search("茶", languages="ja")[0]
    assert (found.title, found.language) == ("茶", "ja")


def test_a_frame_with_missing_values(tiny_model: Any) -> None:
    table = frame([{"text": "A river.", "title": None}, {"text": "A lake.", "title": "Lake"}])
    index = tiny_model.index(table, progress=False)
    assert index.ids == ["0", "1"]
    assert {hit.title for hit in index.search("river")} == {"", "Lake"}


def test_a_path_is_read_as_a_corpus(tiny_model: Any, repository: Any) -> None:
    index = tiny_model.index(repository / "examples" / "atlas", max_tokens=4, progress=False)
    assert len(index) == 300
    assert "en-baikal" in index


def test_documents_are_encoded_in_bfloat16_and_with_lengths(tiny_model: Any) -> None:
    settings = {"compute_dtype": "mixed_bfloat16", "length_penalty": 0.2}
    plain, index = (tiny_model.index(PASSAGES, progress=False, **own) for own in ({}, settings))
    index.add([{"id": "aral", "text": "The Aral Sea was once 68 metres deep."}], progress=False)
    for query, expected in (("Everest is 8,849 m high.", "everest"), ("Aral Sea", "aral")):
        assert index.search(query)[0].id == expected
    # Short documents have longer vectors.
    assert index.search("Everest is high")[0].score > plain.search("Everest is high")[0].score


def failing() -> Any:
    yield "A first text."
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "at least one document"),
        ([""], "no text.*position 0"),
        (["a", {"title": " "}], "no text.*position 1"),
        ([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}], "unique.*'x'"),
        (["a", 3], "A document is a string.*int at position 1"),
        ([{"text": 3}], "not a string"),
        (failing(), "after 1.*OSError: the disk is gone"),
        ("no such path", "A single string is the path of a corpus"),
        ({"text": "a"}, "as a list"),
        (3, "Received: int"),
    ],
)
def test_bad_documents_are_one_sentence_and_the_index_stays(index: Any, documents: Any, message: str) -> None:
    before = index.ids, index.search(QUESTION, top_k=1)
    with pytest.raises(InputError, match=message) as caught:
        index.add(documents, progress=False)
    assert "Received: " in str(caught.value)
    assert (index.ids, index.search(QUESTION, top_k=1)) == before


@pytest.mark.parametrize(
    ("delete", "message"),
    [
        (["baikal", "atlantis"], "'atlantis'"),
        ("atlantis", "'atlantis'"),
        ([], "no id"),
        ([record["id"] for record in PASSAGES], "at least one document"),
    ],
)
def test_bad_deletions_are_refused_as_a_whole(index: Any, delete: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        index.delete(delete)
    assert len(index) == len(PASSAGES)
    assert index.search(QUESTION, top_k=1).ids == ["baikal"]


@pytest.mark.parametrize(
    ("query", "request_", "message"),
    [
        ("", {}, "A query must contain text"),
        (" \n", {}, "A query must contain text"),
        (["a", ""], {}, "position 1"),
        (3, {}, "A query must be a string.*Received: int"),
        ([None], {}, "NoneType at position 0"),
        ("a", {"top_k": 0}, "`top_k` must be between 1 and 10000"),
        ("a", {"top_k": "many"}, "`top_k` must be of type int32"),
        ("a", {"k_prime": 0}, "`k_prime` must be at least 1"),
        ("a", {"leaves": -1}, "`leaves` must be 0"),
        ("a", {"imputation": "best"}, "`imputation` must be one of"),
        ("a", {"rescore": 1}, "`rescore` must be 0"),
        ("a", {"constant": math.nan}, "`constant` must be a finite number"),
    ],
)
def test_bad_requests_are_one_sentence(
    index: Any, query: Any, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        index.search(query, **request_)
    assert "Received: " in str(caught.value)
    assert "\n" not in str(caught.value)
