"""Requests with one value per query: every query gets its own answer, in every kind of index."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.index_kinds import ONE_FAST
from xtr_tf.retriever.gate import pairs_to_join, problems_of
from xtr_tf.retriever.reference_cases import Reference, ReferenceCase, read_reference
from xtr_tf.runtime import SavedModelSession

QUERIES = ["highest mountain on earth", "東京", "wie lang ist der Nil?", "nile"]
# No two queries ask for the same; two of them share k' and leaves, and are searched together.
REQUEST = {
    "k_prime": [100, 7, 100, 40],
    "top_k": [3, 8, 1, 5],
    "leaves": [0, 4, 0, 40],
    "imputation": ["top_k_prime", "none", "constant", "zero"],
    "constant": [0.0, 0.0, 0.4, 0.0],
    "languages": ["", "ja", "de,fr", ""],
    "filter": ["", "", "language!=fr", "language=en|de"],
    "min_score": [-1e30, -1e30, -1e30, 0.2],
}


def case_of(signature: str, inputs: dict, answer: dict) -> ReferenceCase:
    """An answer to compare with: scores may move by the rounding of an encoder and of ScaNN's tables."""
    tolerances = dict.fromkeys(("scores", "xtr_scores", "token_scores", "cutoffs"), 3e-3)
    return ReferenceCase(signature, inputs, answer, tolerances)


def assert_as_alone(session: SavedModelSession, signature: str, inputs: dict) -> None:
    from xtr_tf.retriever.agreement import differences, without_padding

    together = session.run(signature, inputs)
    for row in range(len(QUERIES)):
        own = {name: values[row : row + 1] for name, values in inputs.items()}
        alone = case_of(signature, own, session.run(signature, own))
        half = {name: array[row : row + 1] for name, array in together.items()}
        assert differences(alone, without_padding(alone, half)) == [], (signature, row)


@pytest.mark.parametrize("kind", ONE_FAST)
def test_rows_that_differ_get_their_own_answers(sessions, kind):
    session = sessions[kind]
    vectors = session.run("encode_query", {"query": QUERIES})
    encoded = {"encodings": vectors["encodings"], "mask": vectors["mask"]}
    rescore = {} if kind == "scann" else {"rescore": [0, 9, 20, 0]}
    hits = {name: REQUEST[name] for name in ("k_prime", "leaves", "languages", "filter")}
    assert_as_alone(session, "search", {"query": QUERIES, **REQUEST, **rescore})
    assert_as_alone(session, "search_vectors", {**encoded, **REQUEST, **rescore})
    assert_as_alone(session, "search_tokens", {"query": QUERIES, **hits})
    assert_as_alone(session, "search_vectors_tokens", {**encoded, **hits})
    assert_as_alone(session, "explain", {"query": QUERIES, **REQUEST})


def test_columns_beyond_a_rows_own_number_are_empty(sessions):
    found = sessions["exact"].run("search", {"query": QUERIES, "top_k": [3, 8, 1, 5]})
    assert found["scores"].shape == (4, 8)
    counts = np.isfinite(found["scores"]).sum(axis=1)
    assert counts.tolist() == [3, 8, 1, 5]
    for name in ("document_ids", "titles", "languages"):
        assert (found[name][~np.isfinite(found["scores"])] == b"").all()


def test_one_value_serves_for_all(sessions):
    written_out = sessions["exact"].run("search", {"query": QUERIES, "top_k": [3] * 4, "k_prime": [50] * 4})
    for_all = sessions["exact"].run("search", {"query": QUERIES, "top_k": [3], "k_prime": [50]})
    assert for_all["document_ids"].tolist() == written_out["document_ids"].tolist()


def test_every_signature_has_the_queries_first(sessions):
    for signature in sessions["exact"].signatures.values():
        for spec in (*signature.inputs.values(), *signature.outputs.values()):
            assert spec.shape is not None
            assert spec.shape[0] is None, (signature.name, spec.name)


def test_requests_are_joined_as_servers_do(published):
    cases = read_reference(published["exact"]).cases
    pairs = list(pairs_to_join(cases))
    assert [first for first, _ in pairs] == list(cases)
    for first, second in pairs:
        assert first.signature == second.signature
        for name, array in first.inputs.items():
            assert array.shape[1:] == second.inputs[name].shape[1:]
    assert {first.signature for first, second in pairs if first is not second} >= {
        "search",
        "serving_default",
    }


class NotByRows(SavedModelSession):
    """A model that answers a joined request with the rows in another order, or with one too few."""

    fault = ""

    def run(self, signature, inputs):
        answer = super().run(signature, inputs)
        if len(next(iter(inputs.values()))) < 6:
            return answer
        return {name: array[::-1] if self.fault == "order" else array[:-1] for name, array in answer.items()}


@pytest.mark.parametrize("fault", ["order", "number"])
def test_the_gate_notices_answers_that_cannot_be_split(published, fault):
    reference = read_reference(published["exact"])
    cases = [case for case in reference.cases if case.signature == "serving_default"][:1]
    with NotByRows(published["exact"]) as session:
        session.fault = fault
        problems = list(problems_of(session, Reference(cases, {})))
    found = [problem for problem in problems if "no reference answer" not in problem]
    assert found
    assert all(problem.startswith("`serving_default`, two requests joined: ") for problem in found)
