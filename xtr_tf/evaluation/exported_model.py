"""An exported model version: searched through its own index, and encoding for the exact figure beside it.

Runs without Python TensorFlow, on the loader that servers use.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.corpus.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.datasets.query import Query
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.token_encoder import EncodedQuery
from xtr_tf.evaluation.token_index import TokenIndex, check_size
from xtr_tf.export.version_directory import latest_version
from xtr_tf.runtime.saved_model_session import SavedModelSession

_QUERIES_AT_ONCE = 32
_DOCUMENTS_AT_ONCE = 32


class ExportedModel:
    """A model of `xtr-tf export`.

    Args:
        directory: A version, or the base directory, whose newest version is taken.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = latest_version(Path(directory))
        self._session = SavedModelSession(self.directory)

    def search(self, name: str, queries: Sequence[Query], depth: int, k_prime: int | None = None) -> Run:
        """Searches the model's own index.

        Args:
            name: Of the run.
            queries: The queries; one without text finds nothing.
            depth: Documents of each query.
            k_prime: Tokens that each query token retrieves; the model's own default if None.
        """
        request: dict[str, Any] = (
            {"top_k": depth} if k_prime is None else {"top_k": depth, "k_prime": k_prime}
        )
        rankings = {}
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            group = queries[start : start + _QUERIES_AT_ONCE]
            for query, (ids, scores) in zip(group, self._search(group, request), strict=True):
                found = np.isfinite(scores)
                rankings[query.id] = ([key.decode() for key in ids[found]], scores[found])
        return Run(name, rankings)

    def encode_queries(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """The vectors of each query, in order."""
        encoded = self._encode("encode_query", "query", texts, _QUERIES_AT_ONCE)
        return [EncodedQuery(vectors if len(vectors) > 1 else vectors[:0]) for vectors in encoded]

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> TokenIndex:
        """The vectors of a corpus, in order; documents longer than the model takes are cut."""
        texts = [document.full_text for document in documents]
        encoded = self._encode("encode_document", "document", texts, _DOCUMENTS_AT_ONCE, dataset)
        lengths = np.array([len(vectors) for vectors in encoded])
        return TokenIndex(
            documents,
            np.concatenate(encoded),
            np.cumsum([0, *lengths]),
            # Which length is the longest is not told; many documents at one length above all others is.
            cut_documents=_count_at_limit(lengths),
        )

    def _search(self, queries: Sequence[Query], request: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Ids and scores of each query; a batch that the model refuses is asked query by query."""
        try:
            found = self._session.run("search", {"query": [query.text for query in queries], **request})
        except InputError:
            if len(queries) > 1:
                return [result for query in queries for result in self._search([query], request)]
            if self.encode_queries([queries[0].text])[0].vectors.size:
                raise
            return [(np.empty(0, object), np.empty(0, np.float32))]
        return list(zip(found["document_ids"], found["scores"], strict=True))

    def _encode(
        self, signature: str, name: str, texts: Sequence[str], at_once: int, dataset: str = ""
    ) -> list[np.ndarray]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        encoded: list[np.ndarray] = [np.empty(0)] * len(texts)
        tokens = 0
        for start in range(0, len(order), at_once):
            places = order[start : start + at_once]
            found = self._session.run(signature, {name: [texts[place] for place in places]})
            for place, vectors, mask in zip(places, found["encodings"], found["mask"], strict=True):
                encoded[place] = vectors[mask]
                tokens += len(encoded[place])
            check_size(tokens, dataset)
        return encoded


def _count_at_limit(lengths: np.ndarray) -> int:
    """Documents of the greatest length, if they are too many for chance."""
    longest = int(np.count_nonzero(lengths == lengths.max()))
    return longest if longest > 1 else 0
