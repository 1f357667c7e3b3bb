"""Bad filters and bad weights of BM25 in TensorFlow Serving's loader: each is an error."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.errors import InputError
from xtr_tf.runtime import SavedModelSession

QUERY = ["highest mountain on earth"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"filter": ["a" * 10_000]}, r"A filter may have 8192 bytes\. Received:.*10000"),
        ({"filter": ["group=g1;;color~red"]}, r"form field=value.*at byte.*10.*fields are .*group, language"),
        ({"filter": ["color=red"]}, r"unknown field.*at byte.*0.*fields are .*group, language"),
        ({"filter": ["group<g1"]}, r"field of texts.*in another way.*at byte.*0"),
        ({"filter": ["\xff=1", ""]}, r"one value for each query, or one for all"),
        ({"min_score": [np.nan]}, r"`min_score`"),
        ({"alpha": [1.5]}, r"`alpha` must be between 0"),
        ({"alpha": [-0.1]}, r"`alpha` must be between 0"),
        ({"alpha": [np.nan]}, r"`alpha` must be between 0"),
        ({"alpha": [np.inf]}, r"`alpha` must be between 0"),
        ({"fusion": ["sum"]}, r"`fusion` must be one of weighted, rrf"),
    ],
)
def test_bad_requests_get_one_sentence_and_the_model_still_answers(
    exact_session: SavedModelSession, asked: dict, message: str
) -> None:
    before = exact_session.run("search", {"query": QUERY})
    for signature in ("search", "explain"):
        with pytest.raises(InputError, match=message):
            exact_session.run(signature, {"query": QUERY, **asked})
    after = exact_session.run("search", {"query": QUERY})
    np.testing.assert_array_equal(before["document_ids"], after["document_ids"])


def test_a_filter_that_allows_no_document_is_an_empty_answer(exact_session: SavedModelSession) -> None:
    for alpha in (0.0, 0.5, 1.0):
        found = exact_session.run("search", {"query": QUERY, "filter": ["group=nobody"], "alpha": [alpha]})
        assert set(found["document_ids"].ravel()) <= {b""}
        assert np.isneginf(found["scores"]).all()


def test_separators_within_values_are_quoted(exact_session: SavedModelSession) -> None:
    """They are one value that no document has, not two clauses or two values."""
    for value in ("g1%3Bg2", "g1%7Cg2", "g%2A", "%25"):
        found = exact_session.run("search", {"query": QUERY, "filter": [f"group={value}"]})
        assert set(found["document_ids"].ravel()) <= {b""}
    for value in ("g1|g2", "g*"):
        found = exact_session.run("search", {"query": QUERY, "filter": [f"group={value}"]})
        assert found["document_ids"][0, 0]


@pytest.mark.parametrize("kind", ["scann", "core"])
def test_a_model_without_bm25_says_so(sessions: dict[str, SavedModelSession], kind: str) -> None:
    with pytest.raises(InputError, match="`alpha` needs an index with BM25"):
        sessions[kind].run("search", {"query": QUERY, "alpha": [0.5]})
    assert sessions[kind].run("search", {"query": QUERY})["document_ids"][0, 0]
