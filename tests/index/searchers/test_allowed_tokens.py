"""Searching some of the tokens gives the answers of an index of only these."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.index.searchers import base, scann
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.scoring.token_owners import TokenOwners

K_PRIME = 40
KINDS = {
    "exact": {"kind": "exact", "dtype": "float32"},
    "core": {"kind": "core", "num_leaves": 50},
    "scann": {"kind": "scann", "num_leaves": 50},
    "reordered": {"kind": "scann", "num_leaves": 50, "reordering": True},
    "sharded": {"kind": "scann", "num_leaves": 50, "num_shards": 3},
}
# How much of the exact answer must be found; codes and leaves lose the rest.
LEAST = {"exact": 1.0, "core": 0.97, "scann": 0.8, "reordered": 0.95, "sharded": 0.8}


#: Tokens of a document; the last has fewer, and shards end within documents.
LENGTH = 7


def search(searcher, queries, documents, k_prime=K_PRIME):
    tokens = allowed_tokens(documents, searcher.num_tokens)
    run = tf.function(lambda *given: searcher.search_allowed(*given, tokens))
    hits = run(tf.constant(queries), tf.constant(k_prime), tf.constant(0), tf.constant([len(queries)]))
    return [part.numpy() for part in hits]


def layout(num_tokens):
    """Offsets of documents, and owners of tokens."""
    owners = np.arange(num_tokens, dtype=np.int32) // LENGTH
    return np.append(np.arange(0, num_tokens, LENGTH), num_tokens).astype(np.int32), owners


def allowed_tokens(documents, num_tokens):
    offsets, owners = layout(num_tokens)
    return AllowedTokens(tf.constant(documents), tf.constant(offsets), TokenOwners(owners).look_up)


def some_documents(vectors, share):
    """Documents at random, `[documents]` bool, and their tokens, `[tokens]` bool."""
    owners = layout(len(vectors))[1]
    documents = np.random.default_rng(0).random(owners[-1] + 1) < share
    return documents, documents[owners]


@pytest.mark.parametrize("part", [None, (0, 1000), (999, 2501), (2501, 4000)])
def test_counts_and_ordinals_are_those_of_the_mask(vectors, part):
    documents, of_tokens = some_documents(vectors, 0.3)
    allowed = allowed_tokens(documents, len(vectors))
    first, last = part or (0, len(vectors))
    if part:
        allowed = allowed.part(*part)
    expected = np.flatnonzero(of_tokens[first:last])
    np.testing.assert_array_equal(allowed.ordinals, expected)
    np.testing.assert_array_equal(allowed.mask, of_tokens[first:last])
    assert int(allowed.count) == len(expected)
    asked = tf.constant([[0, 5], [17, last - first - 1]])
    np.testing.assert_array_equal(allowed.includes(asked), of_tokens[first:last][asked.numpy()])


def score_directly_up_to(monkeypatch, limit):
    monkeypatch.setattr(base, "SCORED_DIRECTLY", limit)
    monkeypatch.setattr(scann, "SCANN_DIRECTLY", float(limit))


@pytest.mark.parametrize("limit", [0, 10**9], ids=["by leaves", "directly"])
@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_the_allowed_tokens_are_found(
    make_index, vectors, queries, monkeypatch, kind, share, limit
):
    score_directly_up_to(monkeypatch, limit)
    documents, allowed = some_documents(vectors, share)
    ids, scores, valid, cutoffs = search(searcher_from_index(make_index(**KINDS[kind])), queries, documents)
    assert allowed[ids[valid]].all()
    exact = np.where(allowed, queries @ vectors.T, -np.inf)
    wanted = min(K_PRIME, int(allowed.sum()))
    expected = np.argsort(-exact, axis=1)[:, :wanted]
    found = [len(set(row[mask]) & set(best)) for row, mask, best in zip(ids, valid, expected, strict=True)]
    assert np.mean(found) / wanted >= LEAST[kind]
    # About k' where leaves are searched.
    assert (valid.sum(axis=1) >= wanted * (0.5 if limit == 0 else 1)).all() or kind == "core"
    assert (valid.sum(axis=1) <= wanted).all() or kind == "core"
    np.testing.assert_array_equal(cutoffs, np.where(valid, scores, np.inf).min(axis=1))
    if kind == "exact":
        np.testing.assert_allclose(cutoffs, np.sort(exact, axis=1)[:, -wanted], atol=rounding(32))


def test_a_query_about_what_is_not_allowed(make_index, vectors, monkeypatch):
    """None of the nearest tokens is allowed, so that more must be looked at than was retrieved."""
    score_directly_up_to(monkeypatch, 0)
    query = vectors[:1]
    similarities = (query @ vectors.T)[0]
    best = np.maximum.reduceat(similarities, np.arange(0, len(vectors), LENGTH))
    documents = best < np.quantile(best, 0.5)
    allowed = documents[layout(len(vectors))[1]]
    ids, _, valid, _ = search(searcher_from_index(make_index(**KINDS["reordered"])), query, documents)
    assert valid.sum() == K_PRIME
    best = np.argsort(-np.where(allowed, similarities, -np.inf))[:K_PRIME]
    assert len(set(ids[0]) & set(best)) >= 0.9 * K_PRIME


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_is_allowed(make_index, queries, vectors, kind):
    nothing = np.zeros(-(-len(vectors) // LENGTH), bool)
    _, scores, valid, cutoffs = search(searcher_from_index(make_index(**KINDS[kind])), queries, nothing)
    assert not valid.any()
    assert (cutoffs == 0).all()
    assert np.isneginf(scores).all()


def test_codes_are_decoded_as_they_were_made(make_index):
    from xtr_tf.index.anisotropic import decode

    index = make_index(**KINDS["scann"])
    packed = index.array("codes")
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
    decoded = decode(codes, index.array("centres"), index.array("cells"), index.array("codebook"))
    tokens = np.array([0, 3999, 17, 17])
    ours = searcher_from_index(index).approximate_vectors(tf.constant(tokens)).numpy()
    np.testing.assert_allclose(ours, decoded[tokens], atol=rounding(2))
