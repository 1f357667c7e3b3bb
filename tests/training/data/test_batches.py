"""Batches: layout, fingerprints, sharding over hosts, and tokenization."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.batches import Batch, batch_dataset
from xtr_tf.training.data.sampling import TrainingData
from xtr_tf.training.data.tokenized import TokenizedData
from xtr_tf.training.data.tokenizing import write_tokenized
from xtr_tf.training.losses.objectives import false_negatives


@pytest.fixture
def data(tmp_path):
    """Ten queries with two positives and `i % 4` negatives each."""
    path = tmp_path / "train.jsonl"
    records = [
        {
            "id": f"q{i}",
            "query": f"query {i}",
            "positives": [{"id": f"p{i}.{j}", "text": f"positive {i} {j}", "score": i} for j in range(2)],
            "negatives": [{"id": f"n{i}.{j}", "text": f"negative {i} {j}"} for j in range(i % 4)],
        }
        for i in range(10)
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    return TrainingData(DataConfig(train=(SourceConfig(path=str(path)),), hard_negatives=2), seed=0)


def test_documents_are_positives_then_the_negatives_of_each_query(data):
    batch = data.batch(0, 10)
    assert sorted(batch.queries) == sorted(f"query {i}".encode() for i in range(10))
    for row, query in enumerate(batch.queries):
        number = int(query.split()[1])
        assert batch.documents[row].startswith(f"positive {number} ".encode())
        negatives = batch.documents[10 + 2 * row : 12 + 2 * row]
        given = [document for document in negatives if document]
        assert len(set(given)) == min(2, number % 4)
        assert all(document.startswith(f"negative {number} ".encode()) for document in given)
        assert not batch.document_keys[10 + 2 * row : 12 + 2 * row][negatives == b""].any()
        np.testing.assert_array_equal(batch.teacher_scores[row], [number, np.nan, np.nan])


def test_a_positive_is_drawn_at_every_visit(data):
    chosen = {document for epoch in range(8) for document in data.batch(10 * epoch, 10).documents[:10]}
    assert len(chosen) == 20


def test_fingerprints_find_other_positives_and_equal_queries(tmp_path):
    path = tmp_path / "train.jsonl"
    records = [
        {"query": "Same question", "text": "answer one"},
        {"query": "same question ", "text": "answer two"},
        {"query": "other", "positives": ["answer one", "answer three"]},
        {"query": "unlike", "text": "nothing in common"},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    data = TrainingData(DataConfig(train=(SourceConfig(path=str(path)),)), seed=0)
    batch = data.batch(0, 4)
    marked = false_negatives(batch.positive_keys, batch.document_keys, tf.range(4)).numpy()
    place = {query.strip().lower() + document: row for row, (query, document) in
             enumerate(zip(batch.queries, batch.documents, strict=True))}  # fmt: skip
    one, two = place[b"same questionanswer one"], place[b"same questionanswer two"]
    (other,) = (row for key, row in place.items() if key.startswith(b"other"))
    (unlike,) = (row for key, row in place.items() if key.startswith(b"unlike"))
    assert marked[one, two]
    assert marked[two, one]
    assert marked[other, one]
    assert not marked[unlike].any()
    assert not marked[:, unlike].any()
    assert not marked.diagonal().any()


def test_hosts_split_the_global_batch_of_one_device(data, tiny_corpus):
    tokenizer = tiny_corpus.tokenizer
    whole = list(batch_dataset(data, tokenizer, 8, range(1, 3)))
    hosts = [
        list(batch_dataset(data, tokenizer, 2, range(1, 3), devices=devices, device_count=4))
        for devices in (range(2), range(2, 4))
    ]
    for step, batch in enumerate(whole):
        parts = [part for host in hosts for part in host[2 * step : 2 * step + 2]]
        np.testing.assert_array_equal(tf.concat([part.query_ids for part in parts], axis=0), batch.query_ids)
        np.testing.assert_array_equal(
            tf.concat([part.document_ids[:2] for part in parts], axis=0), batch.document_ids[:8]
        )


def test_shapes_are_static_or_cut_to_the_longest_row(data, tiny_corpus):
    (static,) = batch_dataset(data, tiny_corpus.tokenizer, 4, range(1))
    dataset = batch_dataset(data, tiny_corpus.tokenizer, 4, range(1), static_shapes=False)
    (cut,) = dataset
    assert isinstance(static, Batch)
    assert static.query_ids.shape == [4, 16]
    assert static.document_ids.shape == [12, 64]
    assert cut.document_ids.shape == [12, 16]
    np.testing.assert_array_equal(static.document_ids[:, :16], cut.document_ids)
    assert not static.document_ids[:, 16:].numpy().any()
    missing = data.batch(0, 4).documents == b""
    np.testing.assert_array_equal(np.any(cut.document_ids != 0, axis=1), ~missing)


def test_no_examples_is_an_input_error(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    for sources in ((), (SourceConfig(path=str(tmp_path / "a.jsonl")),)):
        with pytest.raises(InputError, match="no training examples"):
            TrainingData(DataConfig(train=sources), seed=0)


def python_operations(dataset):
    """The operations of a dataset's graph, and of the functions in it, that call Python."""
    graph = tf.compat.v1.GraphDef.FromString(
        tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor).numpy()
    )
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert "ParallelMapDatasetV2" in {node.op for node in nodes}
    return {node.op for node in nodes if "PyFunc" in node.op}


def test_texts_tokenized_in_advance_give_the_same_batches_without_python(data, tiny_corpus, tmp_path):
    tokenizer = tiny_corpus.tokenizer
    source = write_tokenized(data, tokenizer, tmp_path / "tokenized")
    ids = TokenizedData(DataConfig(train=(source,), hard_negatives=2), tokenizer.config, seed=0)
    assert ids.max_positives == data.max_positives
    assert [ids.example_id(position) for position in range(12)] == [
        data.example_id(position) for position in range(12)
    ]
    texts, tokenized = (batch_dataset(own, tokenizer, 5, range(6)) for own in (data, ids))
    for expected, found in zip(texts, tokenized, strict=True):
        for name, a, b in zip(Batch._fields, expected, found, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert python_operations(texts) == {"PyFuncStateless"}
    assert python_operations(tokenized) == set()


def test_a_batch_can_have_one_language(tmp_path, tiny_corpus):
    tokenizer = tiny_corpus.tokenizer
    path = tmp_path / "train.jsonl"
    languages = ["en"] * 12 + ["sw"] * 6
    records = [
        {"query": f"{code} {i}", "language": code, "positive": "p"} for i, code in enumerate(languages)
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    config = DataConfig(train=(SourceConfig(path=str(path)),), one_language_per_batch=True)
    texts = TrainingData(config, seed=0, batch_size=4)
    batches = [texts.batch(4 * step, 4) for step in range(10)]
    assert {len({query[:2] for query in batch.queries}) for batch in batches} == {1}
    assert {batch.queries[0][:2] for batch in batches} == {b"en", b"sw"}
    source = write_tokenized(texts, tokenizer, tmp_path / "tokenized")
    tokenized = TokenizedData(dataclasses.replace(config, train=(source,)), tokenizer.config, 0, batch_size=4)
    for batch, ids in zip(batches, batch_dataset(tokenized, tokenizer, 4, range(10)), strict=True):
        np.testing.assert_array_equal(ids.query_ids, tokenizer.tokenize_queries(batch.queries))
