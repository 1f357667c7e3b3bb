"""What counts as the same answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xtr_tf.errors import InputError
from xtr_tf.retriever.agreement import differences, without_padding
from xtr_tf.retriever.reference_cases import (
    FIRST_SCORE_TOLERANCE,
    REFERENCE_FILE,
    Reference,
    ReferenceCase,
    read_reference,
    write_reference,
)


def strings(*values: str) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = [value.encode() for value in values]
    return array


def ranking(ids: str, scores: list[float]) -> dict[str, np.ndarray]:
    return {
        "document_ids": strings(*(character.strip() for character in ids))[np.newaxis],
        "scores": np.array([scores], np.float32),
    }


TOLERANCES = dict.fromkeys(("scores", "token_scores", "cutoffs", "encodings"), 1e-5)


def compare(left, right, signature="search", **fields):
    return differences(ReferenceCase(signature, {}, left, TOLERANCES, **fields), right)


REFERENCE = ranking("abcd", [0.9, 0.8, 0.7999999, 0.5])


def test_equal_rankings():
    assert compare(REFERENCE, REFERENCE) == []
    inf = -float("inf")
    assert compare(ranking("a  ", [0.9, inf, inf]), ranking("a  ", [0.9, inf, inf])) == []


def test_ties_may_change_places():
    assert compare(REFERENCE, ranking("acbd", [0.9, 0.8, 0.7999999, 0.5])) == []


def test_a_tie_at_the_end_may_bring_another_document():
    other = ranking("abce", [0.9, 0.8, 0.7999999, 0.5])
    for beyond, problems in ((0.499999, []), (0.4, ["query 0 finds other documents"]), (-np.inf, None)):
        found = compare(REFERENCE, other, beyond=np.array([beyond], np.float32))
        assert found == (problems if problems is not None else ["query 0 finds other documents"])
    assert compare(REFERENCE, other) == []  # where no more could be asked for


@pytest.mark.parametrize(
    ("ids", "scores"),
    [
        ("bacd", [0.9, 0.8, 0.7999999, 0.5]),
        ("abxd", [0.9, 0.8, 0.7999999, 0.5]),
        ("abc ", [0.9, 0.8, 0.7999999, -float("inf")]),
        ("abcd", [0.91, 0.8, 0.7999999, 0.5]),
        ("abcd", [float("nan"), 0.8, 0.7999999, 0.5]),
        ("abbd", [0.9, 0.8, 0.7999999, 0.5]),
        ("    ", [0.9, 0.8, 0.7999999, 0.5]),
    ],
)
def test_other_rankings(ids, scores):
    assert compare(REFERENCE, ranking(ids, scores))


def test_titles_follow_their_documents():
    left = {**REFERENCE, "titles": strings("A", "B", "C", "D")[np.newaxis]}
    moved = {**ranking("acbd", [0.9, 0.8, 0.7999999, 0.5]), "titles": strings("A", "C", "B", "D")[np.newaxis]}
    assert compare(left, moved) == []
    wrong = {**REFERENCE, "titles": strings("A", "C", "B", "D")[np.newaxis]}
    assert compare(left, wrong) == ["`titles` differs in 2 of 4 values"]


def explanation(retrieved: list[bool], starts: list[int], scores: list[float]) -> dict[str, np.ndarray]:
    return {
        **ranking("a", [0.5]),
        "retrieved": np.array([[retrieved]]),
        "starts": np.array([[starts]], np.int32),
        "token_scores": np.array([[scores]], np.float32),
    }


def test_explanations_may_differ_only_at_the_cutoff():
    left = explanation([True, False], [4, -1], [0.5, 0.3])
    assert compare(left, explanation([True, True], [4, 9], [0.5, 0.3]), "explain") == []
    assert compare(left, explanation([True, False], [5, -1], [0.5, 0.3]), "explain")
    assert compare(left, explanation([True, True], [4, 9], [0.5, 0.31]), "explain")


def test_which_of_two_close_tokens_matched_is_left_to_rounding():
    left, right = explanation([True, True], [4, 7], [0.5, 0.3]), explanation([True, True], [4, 9], [0.5, 0.3])
    assert compare(left, right, "explain") == ["`starts` differs in 1 of 2 values"]
    assert compare(left, right, "explain", contested=np.array([[[False, True]]])) == []
    assert compare(left, right, "explain", contested=np.array([[[True, False]]]))


def hits(tokens: list[int], scores: list[float], ids: str, cutoff: float = 0.3) -> dict[str, np.ndarray]:
    names = sorted(set(ids) - {" "})
    return {
        "mask": np.array([[True]]),
        "cutoffs": np.array([[cutoff]], np.float32),
        "token_ids": np.array([[tokens]], np.int32),
        "scores": np.array([[scores]], np.float32),
        "documents": np.array([[[names.index(name) if name != " " else -1 for name in ids]]], np.int32),
        "document_ids": strings(*names)[np.newaxis],
        "titles": strings(*(name.upper() for name in names))[np.newaxis],
        "languages": strings(*("en" for _ in names))[np.newaxis],
    }


def test_token_hits():
    left = hits([1, 2, 3], [0.9, 0.5, 0.3], "aab")
    same = "search_tokens"
    assert compare(left, hits([2, 1, 3], [0.5, 0.9, 0.3], "aab"), same) == []
    assert compare(left, hits([1, 2, 4], [0.9, 0.5, 0.3], "aac"), same) == []
    assert compare(left, hits([1, 2, 3, 0], [0.9, 0.5, 0.3, -float("inf")], "aab "), same) == []
    assert compare(left, hits([1, 4, 3], [0.9, 0.5, 0.3], "aab"), same)
    assert compare(left, hits([1, 2, 3], [0.9, 0.5, 0.3], "abb"), same)
    assert compare(left, hits([1, 2, 3], [0.9, 0.4, 0.3], "aab"), same)
    assert compare(left, hits([1, 2, 3], [0.9, 0.5, 0.3], "aab", cutoff=0.2), same)
    other_title = hits([1, 2, 3], [0.9, 0.5, 0.3], "aab")
    other_title["titles"][0, 0] = b"X"
    assert compare(left, other_title, same) == ["token 0 of query 0 retrieves 2 of 3 tokens differently"]
    out_of_range = hits([1, 2, 3], [0.9, 0.5, 0.3], "aab")
    out_of_range["documents"][0, 0, 0] = 7
    assert compare(left, out_of_range, same)


def test_what_a_larger_batch_adds_is_cut():
    case = ReferenceCase("search", {}, REFERENCE, TOLERANCES)
    inf = -float("inf")
    wider = ranking("abcd  ", [0.9, 0.8, 0.7999999, 0.5, inf, inf])
    assert differences(case, wider)
    assert differences(case, without_padding(case, wider)) == []
    more = ranking("abcde ", [0.9, 0.8, 0.7999999, 0.5, 0.4, inf])
    assert differences(case, without_padding(case, more))
    longer = ReferenceCase("encode_query", {}, {"ids": np.ones([1, 2], np.int32)})
    for fill, problems in ((0, 0), (3, 1)):
        padded = {"ids": np.array([[1, 1, fill]], np.int32)}
        assert len(differences(longer, without_padding(longer, padded))) == problems


def test_vectors_are_compared_relative_to_their_length():
    left = {"encodings": np.full([2, 3], 100.0, np.float32), "mask": np.ones([2], bool)}
    assert compare(left, {**left, "encodings": left["encodings"] + np.float32(5e-4)}) == []
    assert compare(left, {**left, "encodings": left["encodings"] + np.float32(5e-3)}) == [
        "`encodings` differs in 2 of 2 vectors, by up to 8.7e-03 of their length (not 1.0e-05)"
    ]
    padding = {"encodings": np.zeros([1, 3], np.float32)}
    assert compare(padding, padding) == []
    assert compare(padding, {"encodings": np.full([1, 3], 1e-9, np.float32)})
    assert compare(left, {**left, "encodings": np.full([2, 3], np.nan, np.float32)})


def test_arrays():
    left = {"ids": np.ones([2, 3], np.int32), "mask": np.ones([2], bool)}
    assert compare(left, {**left, "more": left["mask"]}) == []
    assert compare(left, {**left, "mask": np.array([True, False])}) == ["`mask` differs in 1 of 2 values"]
    assert compare(left, {**left, "mask": np.ones([3], bool)}) == ["`mask` is bool[3] instead of bool[2]"]
    assert compare(left, {"mask": left["mask"]}) == ["the outputs are ['mask'] instead of ['ids', 'mask']"]
    scores = {"scores": np.ones([2], np.float32)}
    assert compare(scores, {"scores": np.array([1, 1.5], np.float32)}) == [
        "`scores` differs in 1 of 2 values, by up to 5.0e-01 (not 1.0e-05)"
    ]


def test_cases_survive_the_disk(tmp_path):
    odd = np.array([[b"\xff\x00", "東".encode(), b""]], object)
    case = ReferenceCase(
        "search",
        {"query": odd, "k": np.array(3, np.int32), "none": np.empty([0], object)},
        {"scores": np.array([[-np.inf, 0.1]], np.float32), "mask": np.array([True])},
        {"scores": 3e-4},
        np.array([[True, False]]),
        np.array([-np.inf], np.float32),
    )
    defaults = {"search": {"k_prime": np.array(7, np.int32)}}
    write_reference(tmp_path, Reference([case], defaults))
    reference = read_reference(tmp_path)
    assert reference.defaults == defaults
    (read,) = reference.cases
    assert read.signature == "search"
    assert read.tolerances == {"scores": 3e-4}
    assert read.contested is not None
    assert read.contested.tolist() == [[True, False]]
    assert read.beyond is not None
    assert read.beyond.tolist() == [-np.inf]
    for left, right in ((case.inputs, read.inputs), (case.outputs, read.outputs)):
        assert left.keys() == right.keys()
        for name, array in left.items():
            assert right[name].dtype == array.dtype
            assert right[name].shape == array.shape
            assert right[name].tolist() == array.tolist()


def test_an_old_form_says_nothing_of_rounding(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    scores = {"dtype": "float32", "shape": [1], "values": [0.5]}
    case = {"signature": "score", "inputs": {}, "outputs": {"scores": scores}}
    (tmp_path / REFERENCE_FILE).write_text(json.dumps([case]))
    reference = read_reference(tmp_path)
    assert reference.form == 1
    assert reference.cases[0].tolerances == {"scores": FIRST_SCORE_TOLERANCE}


def test_a_newer_form(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / REFERENCE_FILE).write_text('{"form": 9}')
    with pytest.raises(InputError, match=r"that this release cannot read.* Received: form 9\.$"):
        read_reference(tmp_path)
