"""What a system found: the ranked documents of every query, and the TREC file for them.

Knows nothing about judgements or the system itself.
"""

from __future__ import annotations

import gzip
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically


class Run:
    """Ranked documents by query.

    Scores are float32 and strictly decreasing: a score that equals the one before it is lowered by the
    smallest possible step. So every tool that reads the run sees the system's ranking, whatever its rule
    for ties.

    Args:
        name: Name of the system.
        rankings: Document ids, best first, and their scores, by query id. Queries that found nothing
            may be left out.

    Example:
        >>> run = Run("BM25", {"q1": (["d2", "d1"], [3.2, 1.5])})
        >>> run.documents("q1")
        ['d2', 'd1']
    """

    def __init__(self, name: str, rankings: Mapping[str, tuple[Sequence[str], ArrayLike]]) -> None:
        self.name = name
        self._rankings = {
            query: (list(documents), _strictly_decreasing(scores))
            for query, (documents, scores) in rankings.items()
            if len(documents)
        }

    @classmethod
    def from_arrays(
        cls,
        name: str,
        query_ids: Sequence[str],
        document_ids: Sequence[str],
        ordinals: np.ndarray,
        scores: np.ndarray,
    ) -> Run:
        """Makes a run from document ordinals.

        Args:
            name: Name of the system.
            query_ids: `[queries]`.
            document_ids: `[documents]`, by ordinal.
            ordinals: `[queries, depth]` integers, best first, negative where nothing was found.
            scores: `[queries, depth]` floats.

        Returns:
            The run, by ids of queries and documents.
        """
        rankings = {}
        for query, row, row_scores in zip(query_ids, ordinals, scores, strict=True):
            is_result = row >= 0
            documents = [document_ids[ordinal] for ordinal in row[is_result]]
            rankings[query] = (documents, row_scores[is_result])
        return cls(name, rankings)

    def __contains__(self, query: str) -> bool:
        return query in self._rankings

    def __iter__(self) -> Iterator[str]:
        return iter(self._rankings)

    def documents(self, query: str) -> list[str]:
        """Returns the documents found for a query, best first; none for a query that is not in the run."""
        return self._rankings[query][0] if query in self._rankings else []

    def scores(self, query: str) -> np.ndarray:
        """Returns the scores of `documents`, `[documents]` float32."""
        return self._rankings[query][1] if query in self._rankings else np.zeros(0, np.float32)

    def as_mapping(self, queries: Sequence[str]) -> dict[str, dict[str, float]]:
        """Returns scores by query and document, for those of `queries` that found anything."""
        return {
            query: dict(zip(self.documents(query), self.scores(query).tolist(), strict=True))
            for query in queries
            if query in self._rankings
        }

    def without(self, excluded: Mapping[str, str]) -> Run:
        """Returns the run without one document per query."""
        rankings = {}
        for query, (documents, scores) in self._rankings.items():
            kept = [rank for rank, document in enumerate(documents) if document != excluded.get(query)]
            rankings[query] = ([documents[rank] for rank in kept], scores[kept])
        return Run(self.name, rankings)

    def only(self, documents: Container[str]) -> Run:
        """Returns the run with only those documents that are in `documents`."""
        rankings = {}
        for query, (found, scores) in self._rankings.items():
            kept = [rank for rank, document in enumerate(found) if document in documents]
            rankings[query] = ([found[rank] for rank in kept], scores[kept])
        return Run(self.name, rankings)

    def write(self, path: str | Path) -> None:
        """Writes a TREC run file, compressed: query, Q0, document, rank, score, name of the system."""
        tag = self.name.replace(" ", "_")
        lines = [
            f"{query} Q0 {document} {rank} {score!r} {tag}\n"
            for query, (documents, scores) in self._rankings.items()
            for rank, (document, score) in enumerate(zip(documents, scores.tolist(), strict=True), start=1)
        ]
        write_atomically(Path(path), gzip.compress("".join(lines).encode(), compresslevel=1, mtime=0))


def _strictly_decreasing(scores: ArrayLike) -> np.ndarray:
    """Returns `scores`, which must not increase, as float32 without ties."""
    values = np.array(scores, np.float32)
    if not np.isfinite(values).all() or (np.diff(values) > 0).any():
        raise InputError(
            "A run's scores must be finite and never rise along the ranking. "
            f"Received: {values[:10].tolist()}."
        )
    if (np.diff(values) < 0).all():
        return values
    for rank in range(1, len(values)):
        if values[rank] >= values[rank - 1]:
            values[rank] = np.nextafter(values[rank - 1], np.float32(-np.inf))
    return values
