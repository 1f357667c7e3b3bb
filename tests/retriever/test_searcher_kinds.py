"""Every kind of index, exported: the same answers in every loader, and only the ops it may use.

Publishing already proves that a fresh process without Python TensorFlow gives the retriever's own answers
on every signature; what is left is Python's own loader, the v1 Session, and repetition.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tests.support.index_kinds import KINDS, ONE_FAST
from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.gate import verify_model
from xtr_tf.retriever.reference_cases import read_reference
from xtr_tf.runtime import SavedModelSession
from xtr_tf.runtime.op_libraries import ops_of
from xtr_tf.runtime.saved_model_file import read_meta_graph

LIBRARIES = {
    "exact": ["_sentencepiece_tokenizer.so"],
    "core": ["_sentencepiece_tokenizer.so"],
    "scann": ["_scann_ops.so", "_sentencepiece_tokenizer.so"],
}
QUERIES = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]
EVERYTHING = {"k_prime": [2**30], "leaves": [2**30]}


@pytest.mark.parametrize("kind", ["scann", "core"])
def test_only_these_libraries_are_needed(sessions, kind):
    assert sorted(path.name for path in sessions[kind].op_libraries) == LIBRARIES[kind]


@pytest.fixture(scope="module")
def stock_ops() -> set[str]:
    """Names of the ops that TensorFlow has by itself, in a process that loaded no other library."""
    listed = subprocess.run([sys.executable, "-c", LIST_OPS], check=True, capture_output=True, text=True)
    return set(listed.stdout.split())


LIST_OPS = """
import ctypes
from xtr_tf.runtime.c_library import c_library
from xtr_tf.runtime.protos import import_proto

class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t)]

list_ops = c_library().TF_GetAllOpList
list_ops.restype = ctypes.POINTER(Buffer)
found = list_ops().contents
ops = import_proto("tensorflow.core.framework.op_def_pb2").OpList
print(*(op.name for op in ops.FromString(ctypes.string_at(found.data, found.length)).op))
"""


@pytest.mark.parametrize("kind", ["exact", "core"])
def test_only_core_ops_and_sentencepiece(published, stock_ops, kind):
    ops = ops_of(read_meta_graph(published[kind]).graph_def)
    assert {"MatMul", "StatefulPartitionedCall"} <= stock_ops
    assert ops - stock_ops == {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceIdToStringOp"}


@pytest.mark.parametrize("kind", ONE_FAST)
def test_pythons_own_loader_agrees(published, kind):
    loaded = tf.saved_model.load(str(published[kind]))
    reference = read_reference(published[kind])
    for case in reference.cases:
        # It knows no defaults.
        values = {**reference.defaults[case.signature], **case.inputs}
        inputs = {name: tf.constant(value) for name, value in values.items()}
        answer = {name: value.numpy() for name, value in loaded.signatures[case.signature](**inputs).items()}
        assert differences(case, answer) == [], case.signature


@pytest.mark.slow
def test_all_kinds_find_the_same_when_nothing_is_left_out(sessions):
    """With every token retrieved, only the precision of the stored vectors differs."""
    request = {"query": QUERIES, "top_k": [60], **EVERYTHING}
    answers = {kind: session.run("search", request) for kind, session in sessions.items()}
    exact = answers["exact"]
    for kind, tolerance in (("core", 0.01), ("scann", 0.1)):
        for query in range(len(QUERIES)):
            scores, other = (
                dict(zip(answer["document_ids"][query], answer["scores"][query], strict=True))
                for answer in (exact, answers[kind])
            )
            assert scores.keys() == other.keys()
            worst = max(abs(scores[name] - other[name]) for name in scores)
            assert worst < tolerance, (kind, worst)


@pytest.mark.parametrize("kind", ONE_FAST)
def test_empty_and_blank_batches(sessions, kind):
    session = sessions[kind]
    assert session.run("serving_default", {"query": []})["document_ids"].shape == (0, 5)
    blank = session.run("serving_default", {"query": ["", " "]})
    assert set(blank["document_ids"].ravel()) == {b""}
    assert session.run("explain", {"query": []})["retrieved"].shape[0] == 0


def test_closing_one_session_does_not_affect_another_of_the_same_model(published, sessions):
    """Their ScaNN resources have the same name but are separate."""
    with SavedModelSession(published["scann"]) as short_lived:
        before = short_lived.run("serving_default", {"query": QUERIES})
    after = sessions["scann"].run("serving_default", {"query": QUERIES})
    assert before["document_ids"].tolist() == after["document_ids"].tolist()


def test_the_card_says_what_it_was_made_of(published):
    card = json.loads((published["core"] / "model_card.json").read_text())
    assert card["index"]["kind"] == "core"
    assert card["corpus"]["documents"] == 60
    assert card["corpus"]["languages"]["en"] > 0
    assert len(card["corpus"]["sha256"]) == len(card["encoder"]["fingerprint"]) == 64
    assert card["defaults"]["k_prime"] == 100
    assert "model" not in card["tokenizer"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_v1_session_agrees(published, kind):
    """TensorFlow Serving's loader, called from Python; the process loads only the op libraries."""
    script = Path(__file__).with_name("v1_session.py")
    subprocess.run([sys.executable, str(script), str(published[kind]), *LIBRARIES[kind]], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_fresh_processes_agree(published, kind):
    for _ in range(10):
        assert verify_model(published[kind]).problems == []
