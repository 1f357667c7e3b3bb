"""Decides whether an answer is the exporter's. Names, ids and texts must be equal, scores and vectors close.

The tolerances are in the case, as the exporter measured them; nothing is tuned here. Needs no TensorFlow.
Every function returns the problems as phrases, and none if everything is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xtr_tf.retriever.reference_cases import ReferenceCase
from xtr_tf.scoring.rankings import ranking_problems

Answer = Mapping[str, np.ndarray]

# Outputs of a ranking that do not have one entry per document.
_NOT_PER_DOCUMENT = ("scores", "document_ids", "query_pieces", "weights")
# Outputs next to token hits that count documents.
_OF_STATISTICS = ("piece_documents", "piece_background", "num_documents", "allowed_documents")
# Outputs of an explanation that depend on which token of a document matched, if any was retrieved.
_OF_A_MATCH = ("document_pieces", "starts", "limits")


def differences(case: ReferenceCase, answer: Answer) -> list[str]:
    """Returns how `answer` differs from the recorded one, apart from rounding.

    If their scores are within the tolerance of the case, documents may swap places, and other tokens may be
    at the cut-off of a query token.

    Args:
        case: A request with its recorded answer and tolerance.
        answer: The current answer of the model.

    Returns:
        One phrase per difference; none if the answers agree.
    """
    missing = sorted(case.outputs.keys() - answer.keys())
    if missing:
        return [f"the outputs are {sorted(answer)} instead of {sorted(case.outputs)}"]
    if "token_ids" in case.outputs:
        return _compare_hits(case, answer)
    if "document_ids" in case.outputs and "scores" in case.outputs:
        return _compare_rankings(case, answer)
    return [
        wrong
        for name, expected in case.outputs.items()
        for wrong in _compare(name, expected, answer[name], case.tolerances.get(name, 0.0))
    ]


# Padding of answers in larger batches, if it is not an empty string, False or 0.
_PADDING = {
    **{"scores": -np.inf, "xtr_scores": -np.inf},
    **dict.fromkeys(("starts", "limits", "documents", "ordinals", "other_ordinals"), -1),
}


def without_padding(case: ReferenceCase, answer: Answer) -> dict[str, np.ndarray]:
    """Removes the padding of a larger batch from an answer, up to its longest text and its largest `top_k`.

    An array with other values in the place of padding is not changed. Its shape then differs from that in the
    case.

    Args:
        case: A request with its recorded answer.
        answer: The part of a joined answer that belongs to it.

    Returns:
        The answer in the recorded shapes.
    """
    cut = {}
    for name, array in answer.items():
        cut[name] = array
        expected = case.outputs.get(name)
        if expected is None or expected.ndim != array.ndim:
            continue
        inside = tuple(map(slice, expected.shape))
        beyond = np.ones(array.shape, bool)
        beyond[inside] = False
        empty = b"" if array.dtype.kind == "O" else _PADDING.get(name, 0)
        # Where the mask is false, the vectors of an encoder may have any values.
        if name == "encodings" or bool(np.all(array[beyond] == empty)):
            cut[name] = array[inside]
    return cut


def _compare(
    name: str, left: np.ndarray, right: np.ndarray, tolerance: float, excused: np.ndarray | bool = False
) -> list[str]:
    if left.shape != right.shape or left.dtype != right.dtype:
        return [f"`{name}` is {right.dtype}{list(right.shape)} instead of {left.dtype}{list(left.shape)}"]
    if name == "encodings":
        return _compare_vectors(left, right, tolerance)
    equal = _close(left, right, tolerance) if left.dtype.kind == "f" else left == right
    wrong = np.count_nonzero(~(equal | excused))
    if not wrong:
        return []
    if left.dtype.kind != "f":
        return [f"`{name}` differs in {wrong} of {left.size} values"]
    with np.errstate(invalid="ignore"):
        worst = np.max(np.abs(left - right)[~(equal | excused)])
    return [f"`{name}` differs in {wrong} of {left.size} values, by up to {worst:.1e} (not {tolerance:.1e})"]


def _compare_vectors(left: np.ndarray, right: np.ndarray, tolerance: float) -> list[str]:
    distances = np.linalg.norm(np.float64(right) - left, axis=-1)
    allowed = tolerance * np.linalg.norm(np.float64(left), axis=-1)
    wrong = np.count_nonzero(~(distances <= allowed))
    if not wrong:
        return []
    return [
        f"`encodings` differs in {wrong} of {distances.size} vectors, by up to {np.max(distances):.1e} "
        f"of their length (not {tolerance:.1e})"
    ]


def _close(left: np.ndarray, right: np.ndarray, tolerance: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        return (left == right) | (np.abs(left - right) <= tolerance)


def _compare_rankings(case: ReferenceCase, answer: Answer) -> list[str]:
    expected, tolerances = case.outputs, case.tolerances
    problems = [
        wrong
        for name in ("scores", "query_pieces", "weights")
        if name in expected
        for wrong in _compare(name, expected[name], answer[name], tolerances.get(name, 0.0))
    ]
    if problems:
        return problems
    names = [name for name in expected if name not in _NOT_PER_DOCUMENT]
    for query in range(len(expected["scores"])):
        # If no more documents could be requested, the next one may be as good as the last.
        beyond = expected["scores"][query, -1] if case.beyond is None else case.beyond[query]
        places = _places_of_same_documents(query, expected, answer, beyond, tolerances["scores"])
        if places is None:
            problems.append(f"query {query} finds other documents")
            continue
        left = {name: expected[name][query][places[0]] for name in names}
        right = {name: answer[name][query][places[1]] for name in names}
        # A token at the cut-off may be retrieved or not. Its score equals the imputed one.
        at_cutoff = left["retrieved"] != right["retrieved"] if "retrieved" in names else False
        contested = False if case.contested is None else case.contested[query][places[0]]
        for name in names:
            if name == "retrieved":
                continue
            excused = at_cutoff | contested if name in _OF_A_MATCH else False
            problems += _compare(name, left[name], right[name], tolerances.get(name, 0.0), excused)
    return problems


def _places_of_same_documents(
    query: int, expected: Answer, answer: Answer, beyond: float, tolerance: float
) -> tuple[list[int], list[int]] | None:
    """Returns the places of the same documents in both rankings, or None if one moved too far for its score.

    A document that is not in the expected ranking is taken to be the one `beyond` its end, with that score.
    """
    scores = expected["scores"][query].tolist()
    place_of = {identifier: place for place, identifier in enumerate(expected["document_ids"][query])}
    place_of.pop(b"", None)
    known, ordinals = len(scores), []
    for identifier in answer["document_ids"][query]:
        if identifier and identifier not in place_of:
            place_of[identifier] = len(scores)
            scores.append(float(beyond))
        ordinals.append(place_of.get(identifier, -1))
    # Each of two scores may be off by the tolerance, so their difference may be off by twice as much.
    if ranking_problems(scores, ordinals, 2 * tolerance):
        return None
    found = [place for place, ordinal in enumerate(ordinals) if ordinal >= 0]
    own = np.array([scores[ordinals[place]] for place in found])
    if not _close(own, answer["scores"][query][found], tolerance).all():
        return None
    shared = [place for place in found if ordinals[place] < known]
    return [ordinals[place] for place in shared], shared


def _compare_hits(case: ReferenceCase, answer: Answer) -> list[str]:
    expected, tolerance = case.outputs, case.tolerances["scores"]
    problems = [
        wrong
        for name in ("mask", "cutoffs", *_OF_STATISTICS)
        if name in expected
        for wrong in _compare(name, expected[name], answer[name], case.tolerances.get(name, 0.0))
    ]
    if problems:
        return problems
    # Older models have no ordinals.
    names = [name for name in ("document_ids", "titles", "languages", "ordinals") if name in expected]
    for query, position in np.argwhere(expected["mask"]):
        cutoff = float(expected["cutoffs"][query, position])
        left, right = (_hits(found, query, position, names) for found in (expected, answer))
        wrong = 0
        for token in left.keys() | right.keys():
            # A token that only one of them retrieved must be as good as the last retrieved token.
            score, document = left.get(token, (cutoff, None))
            other_score, other_document = right.get(token, (cutoff, None))
            in_both = token in left and token in right
            wrong += not abs(score - other_score) <= tolerance or (in_both and document != other_document)
        if wrong:
            problems.append(
                f"token {position} of query {query} retrieves {wrong} of {len(left)} tokens differently"
            )
    if "other_scores" in expected:
        problems += _compare_terms(case, answer)
    return problems


def _compare_terms(case: ReferenceCase, answer: Answer) -> list[str]:
    """Compares BM25. A document that is only in one answer is no better than the last one of the other."""
    tolerance, problems = case.tolerances["lexical_scores"], []
    for query in range(len(case.outputs["mask"])):
        (left, last), (right, other_last) = (_terms(found, query) for found in (case.outputs, answer))
        wrong = sum(not abs(left[key] - right[key]) <= tolerance for key in left.keys() & right)
        wrong += sum(not left[key] <= other_last + tolerance for key in left.keys() - right)
        wrong += sum(not right[key] <= last + tolerance for key in right.keys() - left)
        if wrong:
            problems.append(f"query {query} has another BM25 for {wrong} of {len(left)} documents")
    return problems


def _terms(answer: Answer, query: int) -> tuple[dict[int, float], float]:
    """Returns BM25 of documents by ordinal, and that of the last document without a hit."""
    scores: dict[int, float] = {}
    for names in (("ordinals", "lexical_scores"), ("other_ordinals", "other_scores")):
        ordinals, values = (answer[name][query].tolist() for name in names)
        scores.update((o, value) for o, value in zip(ordinals, values, strict=True) if o >= 0)
    return scores, float(answer["other_scores"][query].min(initial=np.inf))


def _hits(
    answer: Answer, query: int, position: int, names: Sequence[str]
) -> dict[int, tuple[float, tuple[bytes, ...]]]:
    """Returns `{token: (score, names of its document)}` of a query token; empty if a document is missing."""
    called = list(zip(*(answer[name][query] for name in names), strict=True))
    documents = answer["documents"][query, position]
    if documents.size and not -1 <= documents.min() <= documents.max() < len(called):
        return {}
    row = (answer[name][query, position].tolist() for name in ("token_ids", "scores"))
    return {
        token: (score, called[document])
        for token, score, document in zip(*row, documents.tolist(), strict=True)
        if document >= 0
    }
