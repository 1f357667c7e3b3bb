"""A filtered search answers like an index of only the allowed documents; answers can be shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.retriever.test_search_signatures import TOLERANCE, assert_ranked, encode, reference

QUERIES = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]
FILTERS = {
    "number>=30": lambda number, record: number >= 30,
    "group=g0|g1": lambda number, record: number % 3 < 2,
    "number<50;language!=en": lambda number, record: number < 50 and record.language != "en",
    "group=g*": lambda number, record: True,
}


def allowed_by(corpus, text: str) -> set[int]:
    return {number for number, record in enumerate(corpus.documents) if FILTERS[text](number, record)}


@pytest.mark.parametrize("k_prime", [7, 100_000])
def test_every_query_has_its_own_filter(signatures, tiny_corpus, k_prime):
    texts = list(FILTERS)
    queries = [QUERIES[number % 3] for number in range(len(texts))]
    found = signatures["search"](
        tf.constant(queries),
        filter=tf.constant(texts),
        k_prime=tf.constant([k_prime]),
        top_k=tf.constant([8]),
    )
    encodings, mask = encode(signatures, queries)
    for row, text in enumerate(texts):
        allowed = allowed_by(tiny_corpus, text)
        scores = reference(tiny_corpus, encodings[row][mask[row]], k_prime, allowed)
        assert_ranked(tiny_corpus, scores, found["document_ids"].numpy()[row])
        values = sorted(scores.values(), reverse=True)[:8]
        ours = found["scores"].numpy()[row]
        np.testing.assert_allclose(ours[: len(values)], values, rtol=0, atol=2 * TOLERANCE)
        assert np.isneginf(ours[len(values) :]).all()


def test_filters_and_languages_both_count(signatures, tiny_corpus):
    found = signatures["search"](
        tf.constant(QUERIES[:1]),
        filter=tf.constant(["number>=20"]),
        languages=tf.constant(["de,ja"]),
        top_k=tf.constant([60]),
        k_prime=tf.constant([100_000]),
    )
    expected = {
        record.id.encode()
        for number, record in enumerate(tiny_corpus.documents)
        if number >= 20 and record.language in ("de", "ja")
    }
    assert set(found["document_ids"].numpy()[0]) - {b""} == expected


def test_nothing_is_allowed(signatures):
    for name in ("search", "explain"):
        found = signatures[name](tf.constant(QUERIES), filter=tf.constant(["number>1000"]))
        assert set(found["document_ids"].numpy().ravel()) == {b""}, name
        assert np.isneginf(found["scores"]).all()
    hits = signatures["search_tokens"](tf.constant(QUERIES), filter=tf.constant(["number>1000"]))
    assert (hits["documents"].numpy() == -1).all()


def test_bad_filters_say_where_and_what_there_is(signatures):
    for name in ("search", "explain", "search_tokens"):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"unknown field.*at byte.*9.*group, language, number.*colour=red",
        ):
            signatures[name](tf.constant(QUERIES[:1]), filter=tf.constant(["number>1;colour=red"]))


def test_explanations_are_of_allowed_documents(signatures, tiny_corpus):
    explained = signatures["explain"](tf.constant(QUERIES), filter=tf.constant(["number>=30"]))
    found = signatures["search"](tf.constant(QUERIES), filter=tf.constant(["number>=30"]))
    np.testing.assert_array_equal(explained["document_ids"], found["document_ids"])
    late = {record.id.encode() for record in tiny_corpus.documents[30:]}
    assert set(explained["document_ids"].numpy().ravel()) <= late


def test_weak_answers_are_left_out(signatures):
    plain = signatures["search"](tf.constant(QUERIES))
    limits = plain["scores"].numpy()[:, 2]
    found = signatures["search"](tf.constant(QUERIES), min_score=tf.constant(limits))
    assert np.isfinite(found["scores"]).sum(axis=1).tolist() == [3, 3, 3]
    assert (found["titles"].numpy()[:, 3:] == b"").all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`min_score` must be a finite number"):
        signatures["search"](tf.constant(QUERIES), min_score=tf.constant([float("nan")]))


def test_answers_can_be_shown(signatures, tiny_corpus):
    found = signatures["search"](tf.constant(QUERIES), top_k=tf.constant([70]), k_prime=tf.constant([10]))
    by_id = {record.id.encode(): record for record in tiny_corpus.documents}
    names = ("document_ids", "texts", "fields")
    for identifier, text, fields in zip(*(found[name].numpy().ravel() for name in names), strict=True):
        if identifier == b"":
            assert (text, fields) == (b"", b"")
        else:
            assert text.decode() == by_id[identifier].text
            assert json.loads(fields) == by_id[identifier].fields
