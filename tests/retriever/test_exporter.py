"""What an export writes, and that nothing is published unless it passed the gate."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.retrieval import MAX_TOP_K, SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.retriever import export as exporter
from xtr_tf.retriever import reference_requests
from xtr_tf.retriever.gate import GateReport
from xtr_tf.retriever.model_card import ModelCard
from xtr_tf.retriever.reference_cases import Reference, read_reference
from xtr_tf.retriever.reference_requests import default_queries, record_reference
from xtr_tf.runtime.saved_model_file import read_meta_graph

CARD = ModelCard(encoder={}, tokenizer={}, corpus={}, index={}, defaults={})
SIGNATURES = {
    "serving_default",
    "search",
    "search_vectors",
    "search_tokens",
    "search_vectors_tokens",
    "search_hybrid_tokens",
    "explain",
    "encode_query",
    "encode_document",
    "score",
    "look_up",
}


def test_the_directory_is_complete(exact_export):
    assert exact_export.name == "1"
    assert [path.name for path in exact_export.parent.iterdir()] == ["1"]
    card = json.loads((exact_export / "model_card.json").read_text())
    assert card["index"] == {"kind": "exact"}
    assert card["warm_up"] is True
    memory = card["memory"]
    files = sum(path.stat().st_size for path in exact_export.rglob("*") if path.is_file())
    assert files < memory["peak_bytes"] < files + (1 << 30)
    assert memory["resident_bytes"] > 0
    assert card["versions"]["tensorflow"] == tf.__version__
    assert {case.signature for case in read_reference(exact_export).cases} == SIGNATURES


def test_parameters_have_the_models_defaults(exact_session):
    signatures = exact_session.signatures
    assert signatures.keys() == SIGNATURES
    parameters = {"k_prime", "top_k", "leaves", "imputation", "constant", "languages", "filter", "min_score"}
    assert signatures["explain"].optional == parameters | {"token_weights", "alpha", "fusion"}
    assert signatures["search"].optional == parameters | {"rescore", "token_weights", "alpha", "fusion"}
    assert signatures["search_vectors"].optional == parameters | {"rescore", "weights"}
    for name in ("search_tokens", "search_vectors_tokens"):
        assert signatures[name].optional == {"k_prime", "leaves", "languages", "filter"}
    hybrid = signatures["search_hybrid_tokens"]
    assert hybrid.optional == {"k_prime", "leaves", "languages", "filter", "top_k"}
    default = exact_session.run("serving_default", {"query": ["nile"]})
    found = exact_session.run("search", {"query": ["nile"]})
    assert default["document_ids"].tolist() == found["document_ids"].tolist()
    assert default["document_ids"].shape == (1, 5)
    assert exact_session.run("search", {"query": ["nile"], "top_k": [2]})["document_ids"].shape == (1, 2)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"k_prime": [0]}, r"^`k_prime` must be at least 1. Received: 0\.$"),
        ({"top_k": [10_001]}, r"^`top_k` must be between 1 and 10000. Received: 10001\.$"),
        ({"imputation": ["x"]}, r"^`imputation` must be one of .* Received: x\.$"),
        ({"query": [" "]}, r"^Every query must contain text. Received: blank at position 0\.$"),
    ],
)
def test_bad_requests_are_sentences_through_the_runtime(exact_session, inputs, message):
    # The same inputs each time: the runtime prepares a graph for every set of them.
    good = {"query": ["nile"], "k_prime": [100], "top_k": [5], "imputation": ["zero"]}
    with pytest.raises(InputError, match=message):
        exact_session.run("search", {**good, **inputs})


def test_warm_up_requests_run(exact_export, exact_session):
    from tensorflow_serving.apis import prediction_log_pb2

    records = tf.data.TFRecordDataset(str(exact_export / "assets.extra" / "tf_serving_warmup_requests"))
    seen = set()
    for record in records.as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        assert request.model_spec.name == "atlas"
        # A server that batches needs inputs that share their first dimension.
        assert len({value.tensor_shape.dim[0].size for value in request.inputs.values()}) == 1
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        assert exact_session.run(request.model_spec.signature_name, inputs)
        seen.add(request.model_spec.signature_name)
    assert seen == {"serving_default", "search"}


def test_what_signatures_share_is_in_the_graph_once(exact_export):
    functions = read_meta_graph(exact_export).graph_def.library.function
    nodes = [node for function in functions for node in function.node_def]
    # One for the length of queries, one for that of documents.
    assert [node.op for node in nodes].count("SentencepieceTokenizeOp") == 2
    separate = {function.signature.name for function in functions if function.attr["_noinline"].b}
    calls = [node for node in nodes if node.attr["f"].func.name in separate]
    assert len(calls) == len(separate) == 2  # groups of queries, and BM25
    for call in calls:
        settings = tf.compat.v1.ConfigProto.FromString(call.attr["config_proto"].s).graph_options
        # Otherwise the first call of each signature would wait until Grappler has rewritten them.
        assert settings.rewrite_options.disable_meta_optimizer


def test_no_array_of_the_index_is_in_the_graph(exact_export, tiny_corpus):
    graph = read_meta_graph(exact_export).graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    constants = [node for node in nodes if node.op == "Const"]
    assert len(constants) > 100
    # The largest array that belongs to the graph is the encoder's table of position buckets.
    largest = 257 * 4
    assert largest < len(tiny_corpus.document_of_token)
    for node in constants:
        value = node.attr["value"].tensor
        if value.dtype != tf.string.as_datatype_enum:
            assert tf.make_ndarray(value).nbytes <= largest, node.name
    checkpoint = tf.train.load_checkpoint(str(exact_export / "variables" / "variables"))
    kept = sum(np.prod(shape) for shape in checkpoint.get_variable_to_shape_map().values())
    assert kept > tiny_corpus.vectors.size


def test_a_model_that_does_not_pass_is_not_published(tiny_retriever, signatures, tmp_path, monkeypatch):
    # One signature is enough, and quicker to save.
    monkeypatch.setattr(exporter, "build_signatures", lambda _: {"score": signatures["score"]})
    monkeypatch.setattr(exporter, "record_reference", lambda *_: Reference([], {}))
    monkeypatch.setattr(exporter, "verify_model", lambda *_: GateReport(0.0, {}, [], ["`score`: wrong"]))
    with pytest.raises(InputError, match=r"not published: `score`: wrong\. Received: .*model/1'"):
        exporter.export_retriever(tiny_retriever, tmp_path / "model", CARD, queries=["nile"])
    assert list((tmp_path / "model").iterdir()) == []


def test_default_queries_come_from_the_corpus(tiny_retriever, tiny_corpus):
    titles = {record.title for record in tiny_corpus.documents}
    queries = default_queries(tiny_retriever)
    assert len(queries) == 8
    assert set(queries) <= titles


def test_reference_requests_stay_within_the_limits_of_a_deep_default(tiny_retriever, signatures, monkeypatch):
    monkeypatch.setattr(reference_requests, "_as_saved", lambda functions: functions)  # traced already
    deep = SimpleNamespace(
        **{name: value for name, value in vars(tiny_retriever).items() if not name.startswith("_")}
        | {"defaults": SearchDefaults(top_k=6_000)}
    )
    reference = record_reference(deep, signatures, ["highest mountain"])
    rescored = [case.inputs["rescore"].max() for case in reference.cases if "rescore" in case.inputs]
    assert max(rescored) == MAX_TOP_K
    [explained] = [case.inputs["top_k"] for case in reference.cases if case.signature == "explain"]
    assert explained.tolist() == [10]


def test_rounding_is_measured_and_small_in_an_exact_index(exact_export):
    reference = read_reference(exact_export)
    tolerances = {
        (case.signature, name): tolerance
        for case in reference.cases
        for name, tolerance in case.tolerances.items()
    }
    assert 1e-6 < tolerances["encode_query", "encodings"] < 3e-5
    assert 1e-6 < tolerances["search_vectors_tokens", "scores"] < 1e-5
    assert tolerances["search_vectors_tokens", "scores"] < tolerances["search_tokens", "scores"] < 1e-4
    assert reference.defaults["search"]["k_prime"].tolist() == [100]


def test_reference_texts_show_case_and_length(exact_export, tiny_corpus):
    cases = [case for case in read_reference(exact_export).cases if case.signature == "encode_query"]
    texts = [text for case in cases for text in case.inputs["query"]]
    assert any(text.isupper() for text in texts)
    longest = max(cases, key=lambda case: case.outputs["ids"].shape[1]).outputs["ids"]
    assert longest.shape[1] == tiny_corpus.tokenizer.config.query_length
