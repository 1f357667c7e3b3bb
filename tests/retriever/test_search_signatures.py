"""Searching through the retriever's signatures, against a slow NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import assert_same_ranking, network_rounding, rounding
from xtr_tf.retriever.session import RetrieverSession

QUERIES = ["highest mountain", "wie lang ist der Nil?", "東京"]

# An inner product of 32 terms, then a mean over at most 16 query tokens.
TOLERANCE = rounding(32 + 16)
# The encoder's own rounding comes on top where a text is encoded in batches of different shapes.
ENCODED_TOLERANCE = TOLERANCE + network_rounding(700)


def encode(signatures, queries):
    encoded = signatures["encode_query"](tf.constant(queries))
    return encoded["encodings"].numpy(), encoded["mask"].numpy()


def reference(corpus, vectors, k_prime, allowed=None):
    """f_XTR' of one query, `{document ordinal: score}`, in an index of the allowed documents only."""
    kept = np.arange(len(corpus.vectors))
    if allowed is not None:
        kept = np.flatnonzero(np.isin(corpus.document_of_token, list(allowed)))
    similarities = vectors @ corpus.vectors.T
    total: dict[int, float] = {}
    missing_sum = 0.0
    for row in similarities:
        hits = kept[np.argsort(-row[kept], kind="stable")[:k_prime]]
        missing = row[hits[-1]]
        missing_sum += missing
        best: dict[int, float] = {}
        for hit in hits:
            document = int(corpus.document_of_token[hit])
            best[document] = max(best.get(document, -np.inf), row[hit])
        for document, score in best.items():
            total[document] = total.get(document, 0.0) + score - missing
    return {document: (gain + missing_sum) / len(vectors) for document, gain in total.items()}


def assert_ranked(corpus, scores, ids, tolerance=2 * TOLERANCE):
    """Asserts that `ids` rank the documents of `{ordinal: score}`, but for the order of ties."""
    ordinals = {record.id.encode(): ordinal for ordinal, record in enumerate(corpus.documents)}
    expected = [scores.get(ordinal, np.nan) for ordinal in range(len(ordinals))]
    assert_same_ranking(expected, [ordinals.get(identifier, -1) for identifier in ids], tolerance)


@pytest.mark.parametrize("k_prime", [1, 30, 100_000])
def test_search_ranks_as_the_definition_says(signatures, tiny_corpus, k_prime):
    found = signatures["search"](tf.constant(QUERIES), k_prime=tf.constant([k_prime]), top_k=tf.constant([7]))
    encodings, mask = encode(signatures, QUERIES)
    for position in range(len(QUERIES)):
        scores = reference(tiny_corpus, encodings[position][mask[position]], k_prime)
        ids = found["document_ids"].numpy()[position].tolist()
        assert_ranked(tiny_corpus, scores, ids)
        assert [identifier == b"" for identifier in ids] == [rank >= len(scores) for rank in range(7)]
        values = sorted(scores.values(), reverse=True)[:7]
        ours = found["scores"].numpy()[position][: len(values)]
        np.testing.assert_allclose(ours, values, rtol=0, atol=TOLERANCE)


def test_rescoring_ranks_by_f_colbert(signatures, tiny_corpus):
    candidates = signatures["search"](tf.constant(QUERIES), top_k=tf.constant([9]))["document_ids"].numpy()
    found = signatures["search"](tf.constant(QUERIES), top_k=tf.constant([4]), rescore=tf.constant([9]))
    encodings, mask = encode(signatures, QUERIES)
    for position in range(len(QUERIES)):
        # With all tokens retrieved f_XTR' is f_ColBERT.
        exact = reference(tiny_corpus, encodings[position][mask[position]], len(tiny_corpus.vectors))
        ids = [document.id.encode() for document in tiny_corpus.documents]
        kept = {d: score for d, score in exact.items() if ids[d] in candidates[position]}
        assert_ranked(tiny_corpus, kept, found["document_ids"].numpy()[position])
        values = sorted(kept.values(), reverse=True)[:4]
        np.testing.assert_allclose(found["scores"].numpy()[position], values, rtol=0, atol=TOLERANCE)


def test_serving_default_uses_the_defaults(signatures):
    default = signatures["serving_default"](tf.constant(QUERIES))
    found = signatures["search"](tf.constant(QUERIES))
    assert sorted(default) == ["document_ids", "scores"]
    assert default["document_ids"].shape == [3, 5]
    np.testing.assert_array_equal(default["document_ids"], found["document_ids"])
    np.testing.assert_allclose(default["scores"], found["scores"], rtol=0, atol=TOLERANCE)


def test_a_batch_gives_each_query_its_own_answer(signatures, tiny_corpus):
    together = signatures["search"](tf.constant(QUERIES))
    for position, query in enumerate(QUERIES):
        alone = signatures["search"](tf.constant([query]))
        values = together["scores"][position]
        np.testing.assert_allclose(alone["scores"][0], values, rtol=0, atol=ENCODED_TOLERANCE)
        encodings, mask = encode(signatures, [query])
        scores = reference(tiny_corpus, encodings[0][mask[0]], 100)
        for answer in (alone["document_ids"][0], together["document_ids"][position]):
            assert_ranked(tiny_corpus, scores, answer.numpy(), 2 * ENCODED_TOLERANCE)


def test_titles_and_languages_are_returned(signatures, tiny_corpus):
    found = signatures["search"](tf.constant(QUERIES))
    by_id = {record.id.encode(): record for record in tiny_corpus.documents}
    for identifier, title, language in zip(
        *(found[name].numpy().ravel() for name in ("document_ids", "titles", "languages")), strict=True
    ):
        assert title.decode() == by_id[identifier].title
        assert language.decode() == by_id[identifier].language


def test_the_language_filter(signatures, tiny_corpus):
    found = signatures["search"](
        tf.constant(QUERIES),
        k_prime=tf.constant([100]),
        top_k=tf.constant([60]),
        languages=tf.constant(["de, ja"]),
    )
    encodings, mask = encode(signatures, QUERIES)
    allowed = {
        ordinal for ordinal, record in enumerate(tiny_corpus.documents) if record.language in ("de", "ja")
    }
    for position in range(len(QUERIES)):
        scores = reference(tiny_corpus, encodings[position][mask[position]], 100, allowed)
        assert scores
        assert_ranked(tiny_corpus, scores, found["document_ids"].numpy()[position])


def test_an_empty_filter_lets_all_pass_and_an_unknown_language_none(signatures):
    query = tf.constant(QUERIES[:1])
    plain = signatures["search"](query)
    for languages in ("", " ", ","):
        same = signatures["search"](query, languages=tf.constant([languages]))
        np.testing.assert_array_equal(same["document_ids"], plain["document_ids"])
    none = signatures["search"](query, languages=tf.constant(["xx"]))
    assert set(none["document_ids"].numpy().ravel()) == {b""}
    assert np.isneginf(none["scores"]).all()


def test_short_results_are_padded(signatures, tiny_corpus):
    found = signatures["search"](tf.constant(QUERIES), k_prime=tf.constant([1]), top_k=tf.constant([500]))
    ids, scores = found["document_ids"].numpy(), found["scores"].numpy()
    assert ids.shape == scores.shape == (3, 500)
    assert ((ids == b"") == np.isneginf(scores)).all()
    assert (ids == b"").any()
    assert not np.isnan(scores).any()


def test_vectors_give_the_same_as_text(signatures):
    encodings, mask = encode(signatures, QUERIES)
    from_vectors = signatures["search_vectors"](tf.constant(encodings), tf.constant(mask))
    from_text = signatures["search"](tf.constant(QUERIES))
    np.testing.assert_array_equal(from_vectors["document_ids"], from_text["document_ids"])


def test_token_hits_of_vectors_are_those_of_text(signatures):
    encodings, mask = encode(signatures, QUERIES)
    k_prime = tf.constant([50])
    from_vectors = signatures["search_vectors_tokens"](tf.constant(encodings), tf.constant(mask), k_prime)
    from_text = signatures["search_tokens"](tf.constant(QUERIES), k_prime)
    of_pieces = {"piece_documents", "piece_background", "num_documents"}
    assert from_vectors.keys() | of_pieces == from_text.keys()
    for name in ("token_ids", "documents", "document_ids", "mask"):
        np.testing.assert_array_equal(from_vectors[name], from_text[name])
    np.testing.assert_allclose(from_vectors["scores"], from_text["scores"], atol=1e-5)


def test_token_hits_suffice_to_rank(signatures, tiny_corpus):
    """What a client that merges shards does, here with one shard."""
    hits = {
        name: value.numpy()
        for name, value in signatures["search_tokens"](
            tf.constant(QUERIES), k_prime=tf.constant([50])
        ).items()
    }
    found = signatures["search"](tf.constant(QUERIES), k_prime=tf.constant([50]), top_k=tf.constant([10]))
    names = np.array([record.id.encode() for record in tiny_corpus.documents])
    for query in range(len(QUERIES)):
        ids = hits["document_ids"][query][hits["document_ids"][query] != b""]
        assert len(set(ids)) == len(ids)
        scores = np.zeros(len(ids))
        counted = np.zeros(len(ids), bool)
        positions = np.flatnonzero(hits["mask"][query])
        for position in positions:
            documents = hits["documents"][query, position]
            best = np.full(len(scores), -np.inf)
            np.maximum.at(best, documents, hits["scores"][query, position])
            scores += np.where(np.isfinite(best), best, hits["cutoffs"][query, position])
            counted |= np.isfinite(best)
            owners = tiny_corpus.document_of_token[hits["token_ids"][query, position]]
            np.testing.assert_array_equal(names[owners], ids[documents])
        scores = np.where(counted, scores / len(positions), -np.inf)
        place = {identifier: number for number, identifier in enumerate(ids)}
        order = [place[identifier] for identifier in found["document_ids"].numpy()[query]]
        assert_same_ranking(scores, order, 2 * TOLERANCE)
        np.testing.assert_allclose(scores[order], found["scores"].numpy()[query], rtol=0, atol=TOLERANCE)
    assert (hits["documents"][~hits["mask"]] == -1).all()
    assert np.isneginf(hits["scores"][~hits["mask"]]).all()


def test_candidates_are_listed_alike_with_few_documents_and_with_many(tiny_corpus, monkeypatch):
    from xtr_tf.retriever import hits as describing
    from xtr_tf.retriever.tables import DocumentTable
    from xtr_tf.scoring.token_hits import hits_from_padded
    from xtr_tf.scoring.token_owners import TokenOwners

    owners = TokenOwners(tiny_corpus.document_of_token)
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, len(tiny_corpus.document_of_token), [5, 12]).astype(np.int32)
    valid = generator.random([5, 12]) < 0.7
    hits = hits_from_padded(tf.constant(tokens), tf.ones([5, 12]), tf.constant(valid))
    mask = tf.constant([[True, True, False], [False, False, False], [True, True, True]])
    answers = []
    for slots_per_hit in (0, 1000):
        monkeypatch.setattr(describing, "_DOCUMENTS_PER_HIT", slots_per_hit)
        table = DocumentTable(tiny_corpus.documents)
        answers.append(describing.describe_hits(hits, mask, owners.look_up, table))
    assert answers[0]["document_ids"].shape[0] == 3
    for name, values in answers[0].items():
        np.testing.assert_array_equal(values, answers[1][name], err_msg=name)


def test_an_empty_batch_is_answered(signatures):
    for name in ("serving_default", "search", "explain"):
        found = signatures[name](tf.constant([], tf.string))
        assert found["document_ids"].shape == [0, 5], name
    rescored = signatures["search"](tf.constant([], tf.string), rescore=tf.constant([5]))
    assert rescored["document_ids"].shape == [0, 5]
    assert signatures["search_tokens"](tf.constant([], tf.string))["token_ids"].shape[0] == 0


def test_first_calls_of_a_session_build_no_graph_of_the_ranking(tiny_retriever, monkeypatch):
    """A query of another length must not wait for tracing, either."""
    eager = []
    rank = tiny_retriever.rank
    monkeypatch.setattr(
        tiny_retriever, "rank", lambda *given: eager.append(tf.executing_eagerly()) or rank(*given)
    )
    session = RetrieverSession(tiny_retriever)
    for query in ("nile", "highest mountain on earth"):
        session.run("search", {"query": [query]})
    assert eager == [True, True]
