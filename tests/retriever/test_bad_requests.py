"""Mistakes in requests: each gets one sentence, and never a NaN."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import network_rounding
from xtr_tf.collections.document import DocumentRecord
from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.index.searchers.exact import ExactSearcher
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.signatures import build_signatures
from xtr_tf.retriever.tables import DocumentTable, TokenTable

QUERY = tf.constant(["mountain"])


@pytest.mark.parametrize("blank", ["", " ", "\t \n", "\u00a0\u3000"])
def test_blank_queries(signatures, blank):
    for name in ("search", "explain", "search_tokens"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Every query must contain text.*\[1\]"):
            signatures[name](tf.constant(["mountain", blank]))
    mixed = signatures["serving_default"](tf.constant([blank, "mountain", blank]))
    assert set(mixed["document_ids"].numpy()[[0, 2]].ravel()) == {b""}
    assert np.isneginf(mixed["scores"].numpy()[[0, 2]]).all()
    alone = signatures["serving_default"](QUERY)
    # Encoded in batches of different shapes: documents whose scores tie may change places.
    np.testing.assert_allclose(mixed["scores"][1], alone["scores"][0], rtol=0, atol=network_rounding(700))
    assert len({*mixed["document_ids"].numpy()[1]} & {*alone["document_ids"].numpy()[0]}) >= 4
    only = signatures["serving_default"](tf.constant([blank]))
    assert set(only["document_ids"].numpy().ravel()) == {b""}


def test_a_long_query_is_cut(signatures, tiny_corpus):
    long = "mountain river " * 700
    found = signatures["search"](tf.constant([long]))
    assert np.isfinite(found["scores"]).all()
    encoded = signatures["encode_query"](tf.constant([long]))
    assert encoded["encodings"].shape[1] == tiny_corpus.tokenizer.config.query_length


@pytest.mark.parametrize("query", [b"\xff\xfe mountain", b"\xc3", b"\x00", b"\xed\xa0\x80", b"a\x00b"])
def test_bytes_that_are_not_text_are_answered(signatures, query):
    found = signatures["serving_default"](tf.constant([query]))
    assert not np.isnan(found["scores"]).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k_prime": 0}, "`k_prime` must be at least 1"),
        ({"k_prime": -5}, "`k_prime` must be at least 1"),
        ({"leaves": -1}, "`leaves` must be 0"),
        ({"top_k": 0}, "`top_k` must be between 1 and 10000"),
        ({"top_k": -1}, "`top_k` must be between 1 and 10000"),
        ({"top_k": 2**31 - 1}, "`top_k` must be between 1 and 10000"),
        ({"imputation": "mean"}, "`imputation` must be one of"),
        ({"constant": float("nan")}, "`constant` must be a finite number"),
        ({"constant": float("inf")}, "`constant` must be a finite number"),
    ],
)
def test_parameters_out_of_range(signatures, parameters, message):
    tensors = {name: tf.constant([value]) for name, value in parameters.items()}
    for name in ("search", "explain"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            signatures[name](QUERY, **tensors)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["search_vectors"](tf.ones([1, 2, 32]), tf.ones([1, 2], tf.bool), **tensors)


def test_one_bad_value_among_good_ones(signatures):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`top_k` must be .* Received:.*3 0"):
        signatures["search"](tf.constant(["a", "b"]), top_k=tf.constant([3, 0]))


@pytest.mark.parametrize("lengths", [{"k_prime": 0}, {"top_k": 2}, {"constant": 4, "leaves": 3}])
def test_as_many_values_as_queries(signatures, lengths):
    values = {"k_prime": 50, "top_k": 2, "constant": 0.5, "leaves": 0}
    parameters = {name: tf.fill([length], values[name]) for name, length in lengths.items()}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"one value for each query, or one for all.* lengths"
    ):
        signatures["search"](tf.constant(["a", "b", "c"]), **parameters)


@pytest.mark.parametrize("rescore", [-1, 4, 10_001])
def test_rescoring_out_of_range(signatures, rescore):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`rescore` must be 0 .* between `top_k` and 10000"
    ):
        signatures["search"](QUERY, rescore=tf.constant([rescore]))


def test_more_than_there_is_means_all(signatures):
    most = signatures["search"](QUERY, k_prime=tf.constant([2**31 - 1]), leaves=tf.constant([2**31 - 1]))
    assert np.isfinite(most["scores"]).all()


def test_bad_vectors(signatures):
    search = signatures["search_vectors"]
    mask = tf.constant([[True, True]])
    for bad in (float("nan"), float("inf")):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Query vectors must be finite"):
            search(tf.fill([1, 2, 32], bad), mask)
    padding = tf.constant([[[1.0] * 32, [float("nan")] * 32]])
    assert np.isfinite(search(padding, tf.constant([[True, False]]))["scores"]).all()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"mark at least one token of every query.*\[0\]"
    ):
        search(tf.ones([1, 2, 32]), tf.constant([[False, False]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="first two dimensions"):
        search(tf.ones([1, 3, 32]), mask)
    zeros = search(tf.zeros([1, 2, 32]), mask)
    assert not np.isnan(zeros["scores"]).any()


def test_bad_documents_to_score(signatures):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Every query must contain text"):
        signatures["score"](tf.constant([" "]), tf.constant([["text"]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one row of documents for every query"):
        signatures["score"](tf.constant(["a", "b"]), tf.constant([["x"], ["y"], ["z"]]))


def record(identifier: str) -> DocumentRecord:
    return DocumentRecord(identifier, "", "en", "")


def test_bad_corpora():
    with pytest.raises(InputError, match="at least one document"):
        DocumentTable([])
    with pytest.raises(InputError, match="'a' more than once"):
        DocumentTable([record("a"), record("b"), record("a")])
    with pytest.raises(InputError, match="empty id at position 1"):
        DocumentTable([record("a"), record("")])
    with pytest.raises(InputError, match="one piece and one span"):
        TokenTable(np.zeros(3), np.zeros([2, 2]))


def test_parts_that_do_not_fit(tiny_corpus):
    def build(dim=32, tokens=4, owners=(0, 0, 1, 1), table=None):
        Retriever(
            tiny_corpus.encoder,
            tiny_corpus.tokenizer,
            ExactSearcher(np.ones([tokens, dim], np.float32)),
            np.array(owners),
            DocumentTable([record("a"), record("b")]),
            table,
        )

    build()
    with pytest.raises(InputError, match="Received: index 16, encoder 32"):
        build(dim=16)
    with pytest.raises(InputError, match="must count the same tokens"):
        build(tokens=5)
    with pytest.raises(InputError, match="must count the same tokens"):
        build(table=TokenTable(np.zeros(3), np.zeros([3, 2])))
    with pytest.raises(InputError, match="Received: documents 0 to 2"):
        build(owners=(0, 0, 1, 2))


def test_impossible_defaults():
    for wrong in ({"k_prime": 0}, {"top_k": 0}, {"top_k": 10_001}, {"leaves": -1}, {"imputation": "mean"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            SearchDefaults(**wrong)


def test_rescoring_without_vectors(tiny_corpus):
    class CodesAlone(ExactSearcher):
        def vectors_of(self, tokens):
            return None

    retriever = Retriever(
        tiny_corpus.encoder,
        tiny_corpus.tokenizer,
        CodesAlone(tiny_corpus.vectors),
        tiny_corpus.document_of_token,
        DocumentTable(tiny_corpus.documents),
    )
    search = build_signatures(retriever)["search"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="`rescore` needs an index that keeps vectors"):
        search(QUERY, rescore=tf.constant([10]))
    assert np.isfinite(search(QUERY)["scores"]).all()
