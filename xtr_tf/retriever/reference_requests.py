"""The requests an export is checked with and warmed up by: every signature, and its edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xtr_tf.config.retrieval import MAX_TOP_K
from xtr_tf.retriever.reference_cases import ReferenceCase
from xtr_tf.retriever.request import SearchRequest
from xtr_tf.retriever.retriever import Retriever

# Short hit lists keep the file small; what is retrieved does not depend on how much.
_K_PRIME_OF_HITS = 50
_MOST_QUERIES = 8
_WITHOUT_TITLES = ("What is it?", "Où est-ce ?", "誰ですか")


def default_queries(retriever: Retriever) -> list[str]:
    """Returns titles from all over the corpus, or some questions if it has none."""
    titles = retriever.documents.titles
    count = int(titles.shape[0])
    if not count:
        return list(_WITHOUT_TITLES)
    places = np.unique(np.linspace(0, count - 1, _MOST_QUERIES).astype(np.int32))
    found = [title.decode() for title in tf.gather(titles, places).numpy()]
    return [title for title in found if title.strip()] or list(_WITHOUT_TITLES)


def record_cases(
    retriever: Retriever, signatures: Mapping[str, Callable[..., Any]], queries: Sequence[str]
) -> list[ReferenceCase]:
    """Asks the retriever itself, before it is saved.

    Args:
        retriever: Which one.
        signatures: Its functions by name.
        queries: Texts to ask for; none may be blank.
    """
    cases: list[ReferenceCase] = []

    def record(signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        answer = signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        outputs = {name: np.asarray(value.numpy()) for name, value in answer.items()}
        cases.append(
            ReferenceCase(signature, {name: _array(value) for name, value in inputs.items()}, outputs)
        )
        return outputs

    text = _strings(queries)
    parameters = {name: value.numpy() for name, value in _parameters(retriever).items()}
    record("serving_default", query=text)
    record("serving_default", query=_strings([queries[0]]))
    record("serving_default", query=_strings(["", *queries[:1], b"\xff\xfe"]))
    found = record("search", query=text, **parameters)
    language = found["languages"][0, :1]
    record("search", query=text, **{**parameters, "languages": language, "k_prime": np.int32(10)})
    for imputation in ("zero", "constant", "none"):
        record(
            "search", query=text[:1], **{**parameters, "imputation": np.array(imputation.encode(), object)}
        )
    if retriever.keeps_vectors:
        rescore = np.int32(min(2 * retriever.defaults.top_k, MAX_TOP_K))
        record("search", query=text, **{**parameters, "rescore": rescore})
    encoded = record("encode_query", query=text)
    record("search_vectors", **encoded, **parameters)
    record("search_tokens", query=text[:2], k_prime=np.int32(_K_PRIME_OF_HITS), leaves=parameters["leaves"])
    explained = {name: value for name, value in parameters.items() if name != "rescore"}
    record("explain", query=text[:2], **explained)
    record("encode_document", document=text)
    record("score", query=text[:2], documents=np.stack([text, text[::-1]])[: len(text[:2])])
    return cases


def _parameters(retriever: Retriever) -> dict[str, tf.Tensor]:
    return SearchRequest.default(retriever.defaults)._asdict()


def _strings(values: Sequence[str | bytes]) -> np.ndarray:
    encoded = np.empty(len(values), object)
    encoded[:] = [value.encode() if isinstance(value, str) else value for value in values]
    return encoded


def _array(value: Any) -> np.ndarray:
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
