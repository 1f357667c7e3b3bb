"""Partitions of one index: one encoder, the same leaves, codes and weights, together all of its tokens."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support.numbers import rounding
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.retriever import export_partitions as exporter
from xtr_tf.retriever.collection_file import read_collection
from xtr_tf.retriever.export_partitions import PartitionExport, export_partitions
from xtr_tf.retriever.partitions import split
from xtr_tf.runtime import SavedModelSession

QUERIES = ["highest mountain on earth", "wie lang ist der Nil?"]


@pytest.fixture(scope="module")
def partitions(collection_base):
    collection = read_collection(collection_base / "collection.json")
    with contextlib.ExitStack() as stack:
        folders = [collection_base / entry.path / str(entry.version) for entry in collection.partitions]
        yield [stack.enter_context(SavedModelSession(folder)) for folder in folders]


def test_the_collection_names_what_it_is_made_of(collection_base, partitions, tiny_corpus):
    collection = read_collection(collection_base / "collection.json")
    assert collection.documents == len(tiny_corpus.documents)
    assert collection.tokens == len(tiny_corpus.vectors)
    assert sum(collection.languages.values()) == collection.documents
    none = {"documents": np.full((1, 1), -1, np.int32), "tokens": np.full((1, 1, 1), -1, np.int32)}
    for entry, session in zip(collection.partitions, partitions, strict=True):
        told = session.run("look_up", none)
        assert told["encoder"].tolist() == [collection.encoder.encode()]
        assert told["quantizer"].tolist() == [collection.quantizer.encode()]
        assert told["partition"].tolist() == [entry.fingerprint.encode()]
        folder = collection_base / entry.path / str(entry.version)
        card = json.loads((folder / "model_card.json").read_bytes())
        assert (card["corpus"]["documents"], card["corpus"]["tokens"]) == (entry.documents, entry.tokens)


@pytest.mark.parametrize("kind", ["exact", "scann", "core"])
def test_partitions_score_as_the_index_does(directories, kind):
    """The same leaves and codes: not one bit of a score differs, and no token is missing or duplicated."""
    index = TokenIndex.open(directories / kind)
    parts = split(index.document_offsets, 3)
    queries = tf.math.l2_normalize(tf.random.stateless_normal([5, index.dim], [1, 2]), axis=1)
    for k_prime in (60, 200):
        expected = searcher_from_index(index).search(queries, k_prime, 0)
        ids, scores = [], []
        for part in parts:
            hits = searcher_from_index(index, part.tokens).search(queries, k_prime, 0)
            ids.append(hits.token_ids.numpy() + part.tokens.start)
            scores.append(np.where(hits.valid, hits.scores, -np.inf))
        ids, scores = np.concatenate(ids, axis=1), np.concatenate(scores, axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k_prime]
        np.testing.assert_array_equal(
            np.take_along_axis(scores, order, axis=1), -np.sort(-expected.scores, axis=1)
        )
        found = np.take_along_axis(ids, order, axis=1)
        np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(expected.token_ids, axis=1))


def test_weights_are_those_of_all_documents(partitions, signatures):
    expected = signatures["encode_query"](tf.constant(QUERIES))
    counted = signatures["search_tokens"](tf.constant(QUERIES))
    found = [session.run("search_tokens", {"query": QUERIES}) for session in partitions]
    for session in partitions:
        encoded = session.run("encode_query", {"query": QUERIES})
        np.testing.assert_array_equal(encoded["pieces"], expected["pieces"])
        largest = rounding(2, np.max(expected["idf"]))
        np.testing.assert_allclose(encoded["idf"], expected["idf"], rtol=0, atol=largest)
    # Counts that clients add up over several indexes are those of each index's own documents.
    for name in ("piece_documents", "num_documents"):
        np.testing.assert_array_equal(found[0][name] + found[1][name], counted[name])


def test_a_partition_that_fails_leaves_nothing_behind(directories, tmp_path, monkeypatch):
    written = []

    def export(retriever, base, card, version):
        (base / str(version)).mkdir(parents=True)
        written.append(base)
        if len(written) == 2:
            raise InputError("The model was not published. Received: it.")

    monkeypatch.setattr(exporter, "export_retriever", export)
    parts = (str(directories / name) for name in ("encoder", "vectors", "exact"))
    with pytest.raises(InputError, match="was not published"):
        export_partitions(PartitionExport(*parts, 2), tmp_path / "out")
    assert len(written) == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_bad_input_is_refused_before_any_work(directories, collection_base, tmp_path):
    parts = [str(directories / name) for name in ("encoder", "vectors", "exact")]
    with pytest.raises(InputError, match=r"This version exists.* Received: 1 in"):
        export_partitions(PartitionExport(*parts, 2), collection_base, version=1)
    with pytest.raises(InputError, match="A partition would be empty"):
        export_partitions(PartitionExport(*parts, 1000), tmp_path / "out")
    assert not (tmp_path / "out").exists()
