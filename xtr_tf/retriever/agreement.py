"""Is an answer the exporter's answer? Rounding may differ between machines, ranking only within it.

Needs no TensorFlow. Every function returns what is wrong as phrases, none if all is well.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xtr_tf.retriever.reference_cases import ReferenceCase

Answer = Mapping[str, np.ndarray]

# Outputs of a ranking that are not one entry a document.
_NOT_PER_DOCUMENT = ("scores", "document_ids", "query_pieces")
# Outputs of an explanation that depend on whether a token was among the retrieved.
_OF_A_MATCH = ("retrieved", "document_pieces", "starts", "limits")


def differences(case: ReferenceCase, answer: Answer, tolerance: float) -> list[str]:
    """Returns how `answer` differs from the case's, beyond rounding.

    Scores may differ by `tolerance`. Documents may change places, and tokens at the cut-off of a
    query token may be others, where their scores are that close.
    """
    expected = case.outputs
    if sorted(expected) != sorted(answer):
        return [f"the outputs are {sorted(answer)} instead of {sorted(expected)}"]
    if case.signature == "search_tokens":
        return _compare_hits(expected, answer, tolerance)
    if "document_ids" in expected:
        return _compare_rankings(expected, answer, tolerance)
    return [wrong for name in expected for wrong in _compare(name, expected[name], answer[name], tolerance)]


def _compare(
    name: str, left: np.ndarray, right: np.ndarray, tolerance: float, excused: np.ndarray | bool = False
) -> list[str]:
    if left.shape != right.shape or left.dtype != right.dtype:
        return [f"`{name}` is {right.dtype}{list(right.shape)} instead of {left.dtype}{list(left.shape)}"]
    equal = _close(left, right, tolerance) if left.dtype.kind == "f" else left == right
    wrong = np.count_nonzero(~(equal | excused))
    return [f"`{name}` differs in {wrong} of {left.size} values"] if wrong else []


def _close(left: np.ndarray, right: np.ndarray, tolerance: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        return (left == right) | (np.abs(left - right) <= tolerance)


def _compare_rankings(expected: Answer, answer: Answer, tolerance: float) -> list[str]:
    problems = [
        wrong
        for name in ("scores", "query_pieces")
        if name in expected
        for wrong in _compare(name, expected[name], answer[name], tolerance)
    ]
    if problems:
        return problems
    names = [name for name in expected if name not in _NOT_PER_DOCUMENT]
    for query in range(len(expected["scores"])):
        places = _places_of_same_documents(query, expected, answer, tolerance)
        if places is None:
            problems.append(f"query {query} finds other documents")
            continue
        left = {name: expected[name][query][places[0]] for name in names}
        right = {name: answer[name][query][places[1]] for name in names}
        at_cutoff = left["retrieved"] != right["retrieved"] if "retrieved" in names else False
        for name in names:
            excused = at_cutoff if name in _OF_A_MATCH else False
            problems += _compare(name, left[name], right[name], tolerance, excused)
    return problems


def _places_of_same_documents(
    query: int, expected: Answer, answer: Answer, tolerance: float
) -> tuple[list[int], list[int]] | None:
    """Where the same documents stand in both rankings, or None if one moved further than its score may."""
    ids, scores = expected["document_ids"][query], expected["scores"][query]
    place_of = {identifier: place for place, identifier in enumerate(ids) if identifier}
    left, right = [], []
    for place, identifier in enumerate(answer["document_ids"][query]):
        score, known = answer["scores"][query][place], place_of.get(identifier)
        if known is not None and _close(scores[known], score, tolerance):
            left.append(known)
            right.append(place)
        elif identifier == ids[place] == b"":
            continue
        elif known is not None or not _close(scores[-1], score, tolerance):
            return None
    return left, right


def _compare_hits(expected: Answer, answer: Answer, tolerance: float) -> list[str]:
    problems = [
        wrong
        for name in ("query_of_row", "cutoffs")
        for wrong in _compare(name, expected[name], answer[name], tolerance)
    ]
    if problems:
        return problems
    for row, cutoff in enumerate(expected["cutoffs"]):
        left, right = _hits_of_row(expected, row), _hits_of_row(answer, row)
        for token in left.keys() | right.keys():
            score, document = left.get(token, (cutoff, b""))
            other_score, other_document = right.get(token, (cutoff, b""))
            in_both = token in left and token in right
            if not _close(score, other_score, tolerance) or (in_both and document != other_document):
                problems.append(f"row {row} retrieves token {token} differently")
    return problems


def _hits_of_row(answer: Answer, row: int) -> dict[int, tuple[np.ndarray, bytes]]:
    """`{token: (score, document id)}` of one query token."""
    documents = answer["documents"][row]
    if documents.size and not -1 <= documents.min() <= documents.max() < len(answer["document_ids"]):
        return {}
    return {
        int(token): (score, answer["document_ids"][document])
        for token, score, document in zip(
            answer["token_ids"][row], answer["scores"][row], documents, strict=True
        )
        if document >= 0
    }
