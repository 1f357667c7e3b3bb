"""Partitions on servers answer as one index does, for clients that know nothing of partitions."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import signal
import types

import numpy as np
import pytest

from serving.client import Client, ClientError, SearchOptions
from serving.server.collection.addresses import Address
from serving.server.collection.manager import CollectionManager, CollectionOptions
from serving.server.collection.request import SearchRequest, same_signatures
from serving.server.collection.search import CollectionSearch
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import RequestLog
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import RequestError, State
from serving.server.tensor_protos import to_array
from tests.support.numbers import rounding
from xtr_tf.retriever.collection_file import read_collection
from xtr_tf.runtime import SavedModelSession
from xtr_tf.scoring.fusion_reference import steepness
from xtr_tf.vectors.store import TokenVectors

QUERIES = ["highest mountain on earth", "wie lang ist der Nil?", "東京", "the"]
# Sums of 32 products, and then of 16 tokens.
SCORED = rounding(32 + 16)
OPTIONS = [
    {},
    {"k_prime": 1, "top_k": 10},
    {"k_prime": 7, "top_k": 3, "imputation": "zero"},
    {"k_prime": 50, "top_k": 20, "imputation": "constant", "constant": 0.2},
    {"k_prime": 50, "top_k": 20, "imputation": "none"},
    {"k_prime": 10**5 // 2, "top_k": 10},  # everything: f_ColBERT
    {"k_prime": 100, "top_k": 10, "languages": "de,ja"},
    {"k_prime": 100, "languages": "xx"},
    {"k_prime": 50, "top_k": 10, "filter": "language!=de", "min_score": 0.1},
    {"k_prime": 50, "top_k": 10, "token_weights": "idf"},
    {"k_prime": 50, "top_k": 10, "token_weights": "idf", "imputation": "none"},
]
HYBRID = [
    {"alpha": 0.5},
    {"alpha": 0.2, "k_prime": 7, "top_k": 200},  # more documents than XTR finds
    {"alpha": 0.8, "k_prime": 1, "top_k": 10, "imputation": "zero"},
    {"alpha": 0.5, "k_prime": 20, "top_k": 50, "imputation": "constant", "constant": 0.9},  # below the floor
    {"alpha": 0.5, "k_prime": 50, "top_k": 20, "imputation": "none"},
    {"alpha": 1.0, "top_k": 20},
    {"alpha": 0.3, "top_k": 20, "filter": "language=en|ja", "token_weights": "idf"},
    {"alpha": 0.6, "top_k": 10, "languages": "de", "min_score": 0.3},
    {"alpha": 0.6, "top_k": 10, "filter": "language=xx"},
    {"alpha": 0.5, "fusion": "rrf", "top_k": 20},
    {"alpha": 0.2, "fusion": "rrf", "k_prime": 30, "top_k": 10, "filter": "language!=de"},
    {"alpha": 1.0, "fusion": "rrf", "top_k": 20},
    {"alpha": 0.0, "fusion": "rrf", "top_k": 20},
]


@pytest.fixture(scope="module")
def whole(directories):
    """The index that the partitions are parts of, in this process."""
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.session import RetrieverSession

    parts = (directories / name for name in ("encoder", "vectors", "exact"))
    return RetrieverSession(assemble_retriever(*parts, SearchDefaults(100, 5), "snippet").retriever)


def serve_partitions(start_server, base, folder, numbers, kept=1):
    """A server with some partitions as the models `part0` and so on."""
    file = folder / f"{'-'.join(map(str, numbers))}.config"
    models = "".join(
        f'config {{ name: "part{number}" base_path: "{base / f"partition-{number}"}" '
        f'model_platform: "tensorflow" model_version_policy {{ latest {{ num_versions: {kept} }} }} }}'
        for number in numbers
    )
    file.write_text(f"model_config_list {{ {models} }}")
    return start_server("--model-config-file", file, "--prefer-tensor-content", "--poll-seconds", 0.1)


@pytest.fixture(scope="module")
def both(start_server, collection_base, tmp_path_factory):
    with serve_partitions(start_server, collection_base, tmp_path_factory.mktemp("both"), (0, 1)) as server:
        yield server


@pytest.fixture(scope="module")
def aggregator(start_server, collection_base, both):
    with start_server(
        *("--collection", collection_base / "collection.json", "--poll-seconds", 0.1),
        *("--partition", f"0={both.target}/part0", "--partition", f"1={both.target}/part1"),
    ) as server:
        yield server


@pytest.fixture(scope="module")
def asked(aggregator):
    with Client(aggregator.target, timeout=60) as client:
        yield client


def compare(expected, found, atol=None):
    """Documents whose scores are within rounding may change places."""
    largest = max(1.0, float(expected["lexical_scores"].max(initial=0)))
    atol = {"scores": SCORED, "xtr_scores": SCORED, "lexical_scores": SCORED * largest} | (atol or {})
    for name in atol:
        found[name] = found[name].astype(np.float32)
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=0, atol=atol["scores"])
    close = np.isclose(expected["scores"][:, 1:], expected["scores"][:, :-1], rtol=0, atol=2 * atol["scores"])
    tied = np.pad(close, [[0, 0], [1, 0]]) | np.pad(close, [[0, 0], [0, 1]])
    for name in expected.keys() - {"scores", "token_scores", "weights"}:
        same = found[name] == expected[name]
        if name in atol:
            same |= np.isclose(found[name], expected[name], rtol=0, atol=atol[name])
        if name != "query_pieces":
            same |= tied.reshape(tied.shape + (1,) * (same.ndim - 2)) & np.isfinite(
                expected["scores"].reshape(tied.shape + (1,) * (same.ndim - 2))
            )
        assert same.all(), name


def arrays(prediction):
    return {name: np.array(t.values, object).reshape(t.shape) for name, t in prediction.outputs.items()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_partitions_answer_as_one_index(asked, whole, options):
    inputs = {"query": QUERIES, **{name: [value] * len(QUERIES) for name, value in options.items()}}
    expected, found = whole.run("search", inputs), arrays(asked.predict("search", inputs))
    assert found.pop("missing_partitions").tolist() == [b""] * len(QUERIES)
    compare(expected, found)


def moved(whole, alpha):
    """How much further than f_XTR' a fused score may move, because the spread of f_XTR' is BM25's scale."""
    found = whole.run("search", {"query": QUERIES, "alpha": [1.0], "top_k": [1000]})
    return 1 + alpha * steepness(found["lexical_scores"])


@pytest.mark.parametrize("options", HYBRID, ids=str)
def test_partitions_fuse_both_scores_as_one_index(asked, whole, options):
    inputs = {"query": QUERIES, **{name: [value] * len(QUERIES) for name, value in options.items()}}
    expected, found = whole.run("search", inputs), arrays(asked.predict("search", inputs))
    del found["missing_partitions"]
    compare(expected, found, {"scores": SCORED * moved(whole, options["alpha"])})
    assert (expected["lexical_scores"] > 0).any() == (options["alpha"] > 0 and "xx" not in str(options))


def test_a_search_over_http_is_that_of_one_index(aggregator, whole):
    body = {"queries": QUERIES, "top_k": 3, "k_prime": 50, "fields": ["*"]}
    status, answer = aggregator.rest("/v1/search", body)
    assert status == 200, answer
    inputs = {"query": QUERIES, "top_k": [3], "k_prime": [50]}
    expected = whole.run("search", inputs)
    for row, result in enumerate(answer["results"]):
        assert "missing_partitions" not in result
        scores = [document["score"] for document in result["documents"]]
        np.testing.assert_allclose(scores, expected["scores"][row], rtol=0, atol=SCORED)
    _, answer = aggregator.rest("/v1/search", {"query": QUERIES[0], "alpha": 0.5})
    expected = whole.run("search", {"query": QUERIES[:1], "alpha": [0.5]})
    for name in ("xtr_score", "lexical_score"):
        scores = [document[name] for document in answer["results"][0]["documents"]]
        np.testing.assert_allclose(scores, expected[f"{name}s"][0], rtol=SCORED)


def test_only_the_outputs_that_are_asked_for_are_returned(aggregator, connect, asked):
    inputs = {"query": np.array([b"nile"], object)}
    everything = arrays(asked.predict("search", {"query": ["nile"]}))
    for names in (("scores",), ("lexical_scores", "titles"), ("missing_partitions",)):
        found = connect(aggregator.target).predict(signature="search", inputs=inputs, output_filter=names)
        assert set(found.outputs) == set(names)
        for name in names:
            assert np.array_equal(to_array(found.outputs[name], 1 << 16), everything[name])


def test_texts_are_cut_to_where_the_query_matched(asked, whole, directories):
    inputs = {"query": QUERIES, "top_k": [60], "k_prime": [2000]}
    found = arrays(asked.predict("search", inputs))
    stored = {
        record.id.encode(): (record.text or "").encode()
        for record in TokenVectors.open(directories / "vectors").documents()
    }
    whole_texts, cut = 0, 0
    for name, text in zip(found["document_ids"].flat, found["texts"].flat, strict=True):
        whole_texts += bool(name) and text == stored[name]
        cut += text.startswith("…".encode())
    assert whole_texts
    assert cut
    expected = whole.run("search", inputs)
    of_whole = dict(zip(expected["document_ids"][0], expected["texts"][0], strict=True))
    assert dict(zip(found["document_ids"][0], found["texts"][0], strict=True)) == of_whole
    explained = arrays(asked.predict("explain", {"query": QUERIES[:1]}))
    for name, text in zip(explained["document_ids"][0], explained["texts"][0], strict=True):
        assert stored[name].startswith(text)


def test_any_partition_encodes_and_scores(aggregator, connect, whole):
    """What needs no documents is answered as by one model: vectors, f_ColBERT, reranking."""
    documents = [["Mount Everest", "The Nile is long.", ""], ["der Nil", "東京", "x " * 500]]
    for signature, inputs in (
        ("encode_query", {"query": QUERIES}),
        ("encode_document", {"document": documents[1]}),
        ("score", {"query": QUERIES[:2], "documents": documents}),
    ):
        expected = whole.run(signature, inputs)
        sent = {name: np.char.encode(np.array(values)).astype(object) for name, values in inputs.items()}
        answer = connect(aggregator.target).predict(signature=signature, inputs=sent)
        found = {name: to_array(tensor, 1 << 16) for name, tensor in answer.outputs.items()}
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            if array.dtype.kind == "f":
                close = SCORED * max(1.0, float(array[np.isfinite(array)].max()))
                np.testing.assert_allclose(found[name], array, rtol=0, atol=close)
            else:
                assert found[name].tolist() == array.tolist()
    status, answer = aggregator.rest("/v1/rerank", {"query": QUERIES[0], "documents": documents[0]})
    assert status == 200, answer
    [scores] = whole.run("score", {"query": QUERIES[:1], "documents": documents[:1]})["scores"]
    ranked = np.argsort(-scores, kind="stable").tolist()
    assert [result["index"] for result in answer["results"]] == ranked
    assert answer["results"][-1]["relevance_score"] == -1, "a document without text"
    status, answer = aggregator.rest("/v1/rerank", {"query": " ", "documents": ["a"]})
    assert (status, "Every query must contain text" in answer["error"]) == (400, True)


def test_queries_of_a_request_may_ask_for_different_things(asked, whole):
    inputs = {"query": QUERIES[:2], "k_prime": [9, 60], "top_k": [2, 4], "languages": ["de", ""]}
    found = arrays(asked.predict("search", inputs))
    del found["missing_partitions"]
    compare(whole.run("search", inputs), found)


def test_queries_of_a_request_may_be_fused_differently(asked, whole):
    inputs = {
        "query": QUERIES,
        "alpha": [0.0, 0.5, 1.0, 0.3],
        "fusion": ["rrf", "weighted", "weighted", "rrf"],
        "top_k": [3, 9, 4, 30],
    }
    found = arrays(asked.predict("search", inputs))
    del found["missing_partitions"]
    compare(whole.run("search", inputs), found, {"scores": SCORED * moved(whole, 1.0)})


def test_explanations_are_those_of_one_index(asked, whole):
    for options in ({}, {"k_prime": [40] * 4, "token_weights": ["idf"] * 4}, {"alpha": [1.0] * 4}):
        inputs = {"query": QUERIES, **options}
        expected, found = whole.run("explain", inputs), arrays(asked.predict("explain", inputs))
        for name, size in (("scores", 1), ("token_scores", 1), ("weights", expected["weights"].max())):
            found[name] = found[name].astype(np.float32)
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=SCORED * size)
        del found["missing_partitions"]
        compare(expected, found)


def test_serving_default_finds_nothing_for_a_blank_query(asked, whole):
    expected = whole.run("serving_default", {"query": ["nile", " ", "東京"]})
    found = arrays(asked.predict("serving_default", {"query": ["nile", " ", "東京"]}))
    np.testing.assert_allclose(found["scores"].astype(float), expected["scores"], rtol=0, atol=SCORED)
    assert found["document_ids"].tolist() == expected["document_ids"].tolist()


def test_rest_speaks_the_same(aggregator, asked):
    status, answer = aggregator.rest("/v1/models/default:predict", {"instances": ["nile"]})
    assert status == 200
    found = asked.search("nile", SearchOptions(top_k=5)).documents
    assert answer["predictions"][0]["document_ids"] == [hit.id for hit in found]
    _, metadata = aggregator.rest("/v1/models/default/metadata")
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    of_any = {"encode_query", "encode_document", "score"}
    assert signatures.keys() == {"serving_default", "search", "explain", *of_any}
    assert "rescore" not in signatures["search"]["inputs"]
    _, states = aggregator.rest("/v1/models/default")
    assert [(s["version"], s["state"]) for s in states["model_version_status"]] == [("1", "AVAILABLE")]
    _, metrics = aggregator.rest("/monitoring/prometheus/metrics")
    assert 'xtr_serving_partition_calls_total{code="OK",partition="1"}' in metrics
    assert 'xtr_serving_partition_replicas{partition="0"} 1.0' in metrics


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"query": [" "]}, "Every query must contain text"),
        ({"query": ["a"], "k_prime": [0]}, "`k_prime` must be at least 1"),
        ({"query": ["a"], "top_k": [0]}, "`top_k` must be between 1 and 10000. Received: \\[0\\]"),
        ({"query": ["a"], "imputation": ["mean"]}, "`imputation` must be one of .* Received: 'mean'"),
        ({"query": ["a"], "token_weights": ["tf"]}, "`token_weights` must be one of none, idf"),
        ({"query": ["a"], "partial": ["maybe"]}, "`partial` must be one of refuse, allow"),
        ({"query": ["a"], "alpha": [1.5]}, "`alpha` must be between 0 .* Received: \\[1.5\\]"),
        ({"query": ["a"], "alpha": [float("nan")]}, "`alpha` must be between 0 .* Received: \\[nan\\]"),
        ({"query": ["a"], "fusion": ["sum"]}, "`fusion` must be one of weighted, rrf. Received: 'sum'"),
        ({"query": ["a"], "alpha": [0.5], "filter": ["colour=red"]}, "colour"),
        ({"query": ["a"], "rescore": [20]}, "Inputs contains invalid name"),
        ({"query": ["a"], "filter": ["colour=red"]}, "colour"),
        ({"query": ["a", "b"], "top_k": [1, 2, 3]}, "one value for each query"),
    ],
)
def test_bad_requests_are_one_sentence(asked, inputs, sentence):
    with pytest.raises(ClientError, match=f"INVALID_ARGUMENT: .*{sentence}"):
        asked.predict("search", inputs)


def test_a_server_that_dies(start_server, collection_base, both, whole, tmp_path):
    """A second server answers for it; without one the answer is refused, or says what is missing."""
    expected = whole.run("serving_default", {"query": QUERIES})
    serve = ("--collection", collection_base / "collection.json", "--poll-seconds", 0.1)
    zero = f"0={both.target}/part0"
    with serve_partitions(start_server, collection_base, tmp_path, (1,)) as dying:
        alone, second = f"1={dying.target}/part1", f"1={dying.target}/part1,{both.target}/part1"
        with (
            start_server(*serve, "--partition", zero, "--partition", alone) as single,
            start_server(*serve, "--partition", zero, "--partition", second) as replicated,
            Client(single.target, timeout=20, attempts=1) as of_single,
            Client(replicated.target, timeout=20, attempts=1) as of_replicated,
        ):
            for client in (of_single, of_replicated):
                found = arrays(client.predict("serving_default", {"query": QUERIES}))
                assert found["document_ids"].tolist() == expected["document_ids"].tolist()
            dying.process.send_signal(signal.SIGKILL)
            dying.process.wait()
            for _ in range(5):
                found = arrays(of_replicated.predict("serving_default", {"query": QUERIES}))
                assert found["document_ids"].tolist() == expected["document_ids"].tolist()
            with pytest.raises(ClientError, match="UNAVAILABLE: Partition 1 did not answer"):
                of_single.predict("search", {"query": QUERIES[:1]})
            partial = of_single.predict("search", {"query": QUERIES[:1], "partial": ["allow"]})
            assert partial.outputs["missing_partitions"].values == [b"1"]
            entry = read_collection(collection_base / "collection.json").partitions[0]
            with SavedModelSession(collection_base / entry.path / "1") as first:
                own = first.run("search", {"query": QUERIES[:1]})
            assert list(partial.outputs["document_ids"].values) == own["document_ids"][0].tolist()
            _, metrics = single.rest("/monitoring/prometheus/metrics")
            assert 'xtr_serving_partition_missing_total{partition="1"} 1.0' in metrics
            _, over_http = single.rest("/v1/search", {"query": QUERIES[0], "partial": "allow"})
            assert over_http["results"][0]["missing_partitions"] == [1]


async def managed(options, steps):
    """Runs steps with a manager of a collection."""
    pool, log, changes = WorkerPool(1), RequestLog(), []
    manager = CollectionManager(options, pool, Metrics(), log, lambda: changes.append(1), 5.0)
    try:
        await manager.refresh()
        return await steps(manager)
    finally:
        await manager.close()
        pool.close()
        log.close()


def states(manager):
    return {version.number: version.state for version in manager.states("default")}


def test_servers_that_hold_something_else_are_refused_by_name(collection_base, both):
    async def look(manager):
        [version] = manager.states("default")
        return version.state, version.error.message

    file = collection_base / "collection.json"
    addresses = tuple((Address(both.target, f"part{number}"),) for number in (1, 0))
    state, reason = asyncio.run(managed(CollectionOptions(file, addresses), look))
    assert state == State.LOADING
    for number, model in ((0, "part1"), (1, "part0")):
        assert f"partition {number}: {both.target}/{model} holds another partition than the" in reason
    dead = ((Address(both.target, "part0"),), (Address("127.0.0.1:1"),))
    _, reason = asyncio.run(managed(CollectionOptions(file, dead), look))
    assert reason == "partition 1: 127.0.0.1:1 does not answer"


def test_partitions_with_and_without_bm25_are_refused_together():
    with_bm25 = dict.fromkeys(("search", "search_hybrid_tokens"))
    assert same_signatures([with_bm25, with_bm25]) is with_bm25
    sentence = "All partitions need the same .* Received: partition 1 without `search_hybrid_tokens`."
    with pytest.raises(RequestError, match=sentence):
        same_signatures([with_bm25, {"search": None}])


def test_models_without_bm25_refuse_alpha():
    definitions = {name: types.SimpleNamespace(outputs={}) for name in ("encode_query", "look_up")}
    collection = CollectionSearch([], 1, definitions, on_thread=None, metrics=None)
    parameters = {"alpha": np.array([0.5]), "token_weights": np.array([b"none"], object)}
    request = SearchRequest(np.array([b"a"], object), parameters, "search")
    with pytest.raises(RequestError, match=r"`alpha` needs an index with BM25: .* Received: 0\.5\."):
        asyncio.run(collection.run(request, ["scores"], 0.0))


def test_a_version_moves_in_when_all_partitions_have_it(start_server, collection_base, tmp_path):
    base = tmp_path / "collection"
    shutil.copytree(collection_base, base)
    first = read_collection(base / "collection.json")

    async def promote(manager):
        async def until(condition, *, seconds=60):
            for _ in range(int(seconds / 0.1)):
                await manager.refresh()
                if condition():
                    return
                await asyncio.sleep(0.1)
            pytest.fail(f"{states(manager)}, {manager.states('default')[-1].error}")

        assert states(manager) == {1: State.AVAILABLE}
        # One partition is there, and then a broken one: the old version goes on, and says why.
        shutil.copytree(base / "partition-0" / "1", base / "partition-0" / "2")
        entries = tuple(dataclasses.replace(entry, version=2) for entry in first.partitions)
        dataclasses.replace(first, version=2, partitions=entries).write(base)
        await until(lambda: "has versions [1]" in _reason(manager))
        assert states(manager) == {1: State.AVAILABLE, 2: State.LOADING}
        broken = base / "partition-1" / "2"
        broken.mkdir()
        (broken / "saved_model.pb").write_bytes(b"broken")
        await until(lambda: "part1 is loading it: " in _reason(manager))
        assert states(manager)[1] == State.AVAILABLE
        shutil.rmtree(broken)
        with manager.lease("default") as old:
            assert old.version == 1
            shutil.copytree(base / "partition-1" / "1", broken)
            await until(lambda: states(manager)[2] == State.AVAILABLE)
            with manager.lease("default") as new:
                assert new.version == 2
            assert states(manager)[1] == State.UNLOADING
        await until(lambda: states(manager)[1] == State.END)
        # A rollback is the file of before.
        shutil.copy(base / "collections" / "1.json", base / "collection.json")
        await until(lambda: states(manager)[1] == State.AVAILABLE)

    with serve_partitions(start_server, base, tmp_path, (0, 1), kept=2) as server:
        addresses = tuple((Address(server.target, f"part{number}"),) for number in (0, 1))
        asyncio.run(managed(CollectionOptions(base / "collection.json", addresses), promote))


def _reason(manager):
    error = manager.states("default")[-1].error
    return error.message if error else ""
