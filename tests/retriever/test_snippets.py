"""Snippets: cut where the query matched, by an obvious reference, and in a search."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.retriever.snippets import LENGTH, cut_snippets, needed_part

LEAD, WORD, INNER = 50, 30, LENGTH - 2


def reference(text: str, title: str, matches: list[tuple[int, int, float]]) -> str:
    """The same, match by match; spans count characters of title and text together."""
    if len(text) <= LENGTH:
        return text
    before = len(title) + 1 if title else 0
    counted = [(s - before, e - before, x) for s, e, x in matches if s >= before and e > s and x > 0]
    begin, most = 0, 0.0
    for start, _, _ in counted:
        held = sum(x for s, e, x in counted if s >= start and e <= start - LEAD + INNER - WORD)
        if held > most:
            begin, most = start, held
    begin = min(max(begin - LEAD, 0), len(text) - INNER)
    piece = text[begin : begin + INNER]
    if begin:
        head, space, rest = piece.partition(" ")
        piece = "…" + (rest if space and len(head) <= WORD else piece)
    if begin + INNER < len(text):
        rest, space, tail = piece.rpartition(" ")
        piece = (rest if space and len(tail) <= WORD else piece) + "…"
    return piece


def cut(texts, titles, matches):
    """Snippets of `[queries, documents]` with lists of matches, padded as an alignment is."""
    most = max((len(own) for row in matches for own in row), default=0)
    padded = [[[*own, *[(-1, -1, 0.5)] * (most - len(own))] for own in row] for row in matches]
    spans = np.array(padded, np.float64).reshape(len(texts), len(texts[0]), most, 3)
    found = cut_snippets(
        tf.constant(texts),
        tf.constant(titles),
        tf.constant(spans[..., 0].astype(np.int32)),
        tf.constant(spans[..., 1].astype(np.int32)),
        tf.constant(spans[..., 2].astype(np.float32)),
    )
    return [[text.decode() for text in row] for row in found.numpy()]


@pytest.mark.parametrize("seed", range(5))
def test_snippets_are_those_of_the_reference(seed):
    chosen = random.Random(seed)
    letters = ["abc ", "äöü ", "山川海", "🙂a "][seed % 4]

    def made_up() -> tuple[str, str, list[tuple[int, int, float]]]:
        text = "".join(chosen.choice(letters) for _ in range(chosen.choice([0, 20, 299, 300, 301, 900])))
        text = " ".join(text.split())
        title = chosen.choice(["", "Nil", "山"])
        size = len(title) + 1 + len(text)
        # Sixteenths, whose sums are exact in any order.
        matches = [
            (start := chosen.randrange(size), start + chosen.randrange(4), chosen.randrange(-4, 16) / 16)
            for _ in range(chosen.randrange(12))
        ]
        return text, title, matches

    rows = [[made_up() for _ in range(6)] for _ in range(4)]
    texts, titles, matches = ([[own[part] for own in row] for row in rows] for part in range(3))
    expected = [[reference(*own) for own in row] for row in rows]
    snippets = cut(texts, titles, matches)
    assert snippets == expected
    assert all(len(snippet) <= LENGTH for row in snippets for snippet in row)


def test_without_documents_or_matches():
    assert cut([["a" * 500, ""]], [["", ""]], [[[], []]]) == [["a" * INNER + "…", ""]]
    empty = np.zeros([0, 3, 2], np.int32)
    none = tf.zeros([0, 3], tf.string)
    assert cut_snippets(none, none, empty, empty, empty.astype(np.float32)).shape == [0, 3]


@pytest.mark.parametrize("seed", range(5))
def test_snippets_need_no_more_than_is_kept(seed):
    """Texts that go on after their last token, by nothing up to several snippets."""
    rng = np.random.default_rng(seed)
    titles, texts, matches, kept = [], [], [], []
    for more in (0, 1, 200, 297, 298, 299, 300, 301, 302, 900):
        title = "a title" * int(rng.integers(2))
        before = len(title) + 1 if title else 0
        tokens = int(rng.integers(0, 800))
        text = "".join(rng.choice(list("abc öß東 "), tokens + more))
        places = np.sort(rng.integers(0, tokens + 1, (int(rng.integers(0, 6)), 2)), axis=1) + before
        titles.append(title)
        texts.append(text)
        matches.append([(*place, 0.5) for place in places.tolist()])
        kept.append(needed_part(text, title, before + tokens))
    assert cut([kept], [titles], [matches]) == cut([texts], [titles], [matches])
    assert sum(map(len, kept)) < sum(map(len, texts))


@pytest.fixture(scope="module")
def with_snippets(tiny_corpus):
    """A retriever over texts so long that they must be cut: three copies of what was encoded."""
    import dataclasses

    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.retriever.retriever import Retriever
    from xtr_tf.retriever.session import RetrieverSession
    from xtr_tf.retriever.tables import DocumentTable, TokenTable

    records = [dataclasses.replace(d, text=f"{d.text} {d.text} {d.text}") for d in tiny_corpus.documents]
    owners = tiny_corpus.document_of_token
    parts = (tiny_corpus.encoder, tiny_corpus.tokenizer, ExactSearcher(tiny_corpus.vectors), owners)

    def session(snippets: bool, spans: bool = True) -> RetrieverSession:
        tokens = TokenTable(tiny_corpus.pieces, tiny_corpus.spans) if spans else None
        return RetrieverSession(Retriever(*parts, DocumentTable(records, snippets=snippets), tokens))

    return session


def test_a_search_returns_snippets_where_the_query_matched(with_snippets):
    asked = {"query": ["highest mountain on earth", "東京"], "k_prime": [60], "top_k": [4]}
    explained = with_snippets(True).run("explain", asked)
    found = with_snippets(True).run("search", asked)
    whole = with_snippets(False).run("search", asked)
    beginnings = with_snippets(True, spans=False).run("search", asked)
    np.testing.assert_array_equal(explained["texts"], whole["texts"])
    later = 0
    for query, document in np.ndindex(whole["texts"].shape):
        text, title = (whole[name][query, document].decode() for name in ("texts", "titles"))
        own = (explained[name][query, document].tolist() for name in ("starts", "limits", "token_scores"))
        matches = list(zip(*own, strict=True))
        assert found["texts"][query, document].decode() == reference(text, title, matches)
        assert beginnings["texts"][query, document].decode() == reference(text, title, [])
        later += found["texts"][query, document] != beginnings["texts"][query, document]
    assert later
    encoded = with_snippets(True).run("encode_query", {"query": asked["query"]})
    vectors = {name: encoded[name] for name in ("encodings", "mask")}
    by_vectors = with_snippets(True).run("search_vectors", {**vectors, "k_prime": [60], "top_k": [4]})
    np.testing.assert_array_equal(by_vectors["texts"], found["texts"])
