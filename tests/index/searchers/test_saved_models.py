"""Searchers inside SavedModels, in fresh processes, through the loader that TensorFlow Serving runs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from xtr_tf.index.searchers.opening import searcher_from_index

SEARCHERS = {
    "exact": {"kind": "exact"},
    "exact_bfloat16": {"kind": "exact", "dtype": "bfloat16"},
    "scann": {"kind": "scann"},
    "scann_reordering": {"kind": "scann", "reordering": True},
    "scann_sharded": {"kind": "scann", "num_shards": 3},
    "core": {"kind": "core"},
    "core_bfloat16": {"kind": "core", "dtype": "bfloat16"},
    "core_sharded": {"kind": "core", "num_shards": 2},
}
REQUESTS = [(60, 8), (7, 1), (10**6, 10**6), (500, 0)]

# Neither TensorFlow's Python nor any of our TensorFlow code is imported by this process.
REPLAY = """
import json, sys
import numpy as np
from xtr_tf.runtime.saved_model_session import SavedModelSession

folder, rounds = sys.argv[1], int(sys.argv[2])
queries = np.load(f"{folder}/queries.npy")
with SavedModelSession(f"{folder}/model") as session:
    for _ in range(rounds):
        for number, request in enumerate(json.load(open(f"{folder}/requests.json"))):
            expected = np.load(f"{folder}/{number}.npz")
            for signature in ("search", "again"):
                k_prime, leaves = (np.int32(value) for value in request)
                found = session.run(signature, {"queries": queries, "k_prime": k_prime, "leaves": leaves})
                np.testing.assert_array_equal(found["token_ids"], expected["token_ids"])
                np.testing.assert_array_equal(found["valid"], expected["valid"])
                for name in ("scores", "cutoffs"):
                    np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
assert "tensorflow" not in sys.modules and "scann" not in sys.modules
"""


def export(folder, searcher, queries):
    """Saves a searcher behind two signatures, and its answers."""
    module = tf.Module()
    module.searcher = searcher
    signature = [
        tf.TensorSpec([None, searcher.dim], name="queries"),
        tf.TensorSpec([], tf.int32, name="k_prime"),
        tf.TensorSpec([], tf.int32, name="leaves"),
    ]
    functions = {
        name: tf.function(lambda *request: searcher.search(*request)._asdict(), input_signature=signature)
        for name in ("search", "again")
    }
    tf.saved_model.save(module, folder / "model", signatures=functions)
    np.save(folder / "queries.npy", queries)
    (folder / "requests.json").write_text(json.dumps(REQUESTS))
    for number, (k_prime, leaves) in enumerate(REQUESTS):
        hits = functions["search"](queries, k_prime, leaves)
        np.savez(folder / f"{number}.npz", **{name: part.numpy() for name, part in hits.items()})


def replay(folder, rounds=1):
    return subprocess.run(
        [sys.executable, "-c", REPLAY, str(folder), str(rounds)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def exported(make_index, queries, tmp_path_factory):
    """Returns a function from the name of a searcher to the folder of its model and answers."""
    folders = {}

    def make(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            with pytest.MonkeyPatch.context() as patch:
                # Small enough that some of the requests are searched in parts and others are not.
                patch.setattr("xtr_tf.index.searchers.scann._SPLIT_FROM", 10_000)
                export(folders[name], searcher_from_index(make_index(**SEARCHERS[name])), queries)
        return folders[name]

    return make


def graph_of(folder):
    message = saved_model_pb2.SavedModel.FromString((folder / "model" / "saved_model.pb").read_bytes())
    return message.meta_graphs[0].graph_def


def nodes_of(graph):
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_fresh_process_gives_the_same_answers(exported, name):
    finished = replay(exported(name))
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("name", SEARCHERS)
def test_no_part_of_an_index_is_a_graph_constant(exported, name):
    sizes = [
        node.attr["value"].tensor.ByteSize()
        for node in nodes_of(graph_of(exported(name)))
        if node.op == "Const"
    ]
    assert max(sizes) < 6_000  # the names of the saved variables


@pytest.mark.parametrize("name", ["exact", "core", "core_sharded"])
def test_searchers_without_scann_use_only_core_ops(exported, name):
    graph = graph_of(exported(name))
    functions = {function.signature.name for function in graph.library.function}
    foreign = {
        node.op for node in nodes_of(graph) if node.op not in functions and not hasattr(tf.raw_ops, node.op)
    }
    assert not foreign


def test_searching_without_scann_never_imports_it(make_index):
    directories = [str(make_index(kind=kind).directory) for kind in ("exact", "core")]
    script = (
        "import sys, numpy as np\n"
        "from xtr_tf.index.folder import TokenIndex\n"
        "from xtr_tf.index.searchers.opening import searcher_from_index\n"
        f"for directory in {directories!r}:\n"
        "    searcher = searcher_from_index(TokenIndex.open(directory))\n"
        "    hits = searcher.search(np.ones((2, searcher.dim), np.float32), 5, 0)\n"
        "    assert hits.token_ids.shape == (2, 5)\n"
        "assert not any(name.split('.')[0] in ('scann', 'faiss', 'numba') for name in sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_signatures_share_one_searcher_that_they_cannot_build(exported):
    graph = graph_of(exported("scann"))
    builders = [
        (function, node)
        for function in graph.library.function
        for node in function.node_def
        if node.op == "Scann>TensorsToScann"
    ]
    assert len({node.attr["shared_name"].s for _, node in builders}) == 1
    reads_index = []
    for function, _ in builders:
        reads_index.append(any(node.op == "BitwiseAnd" for node in function.node_def))
    assert reads_index.count(True) == 1  # the initialiser
    assert len(reads_index) == 3


def test_two_exports_do_not_share_a_searcher(make_index, queries, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        export(tmp_path / name, searcher_from_index(make_index()), queries)
    names = {
        node.attr["shared_name"].s
        for name in ("a", "b")
        for node in nodes_of(graph_of(tmp_path / name))
        if node.op == "Scann>TensorsToScann"
    }
    assert len(names) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scann", "scann_sharded"])
def test_every_id_is_right_in_many_fresh_processes(exported, name):
    folder = exported(name)
    for attempt in range(40):
        finished = replay(folder, rounds=20)
        assert finished.returncode == 0, f"process {attempt}: {finished.stderr}"
