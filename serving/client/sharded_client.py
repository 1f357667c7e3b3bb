"""Searching an index that is spread over several servers, with the answer that one index would give.

Each server holds some of the documents, whole, and the same encoder. Each is asked for its best k'
tokens for every query token; the best k' of all of them are those of one big index, and so are the
cut-offs, which are what imputation needs and what a merge of document scores could not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from .client import Client
from .client_error import ClientError
from .results import Document, Prediction, SearchResult
from .search_options import SearchOptions

_DEFAULTS = SearchOptions(k_prime=1000, top_k=10, imputation="top_k_prime", constant=0.0, languages=())


class ShardedClient:
    """Asks all servers at once and merges their token hits.

    Args:
        clients: One a server. A document belongs to one of them; where scores are equal, those of
            the first server come first.

    Example:
        >>> sharded = ShardedClient([Client("a:8500"), Client("b:8500")])
        >>> sharded.search("highest mountain", SearchOptions(k_prime=4000)).documents
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        if not clients:
            raise ValueError("A sharded client needs at least one server.")
        self._clients = tuple(clients)
        self._pool = ThreadPoolExecutor(len(self._clients), thread_name_prefix="shard")

    def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query.

        Args:
            query: What to search for.
            options: How; the servers' own defaults may differ, so that these are the paper's
                rather than theirs: k' 1000 and imputation by the cut-off.

        Raises:
            ValueError: `rescore` is set: hits carry no vectors to rank by.
            ClientError: A server did not answer, or does not split the query into the same tokens;
                an answer without one of the shards would be a wrong one.
        """
        if options and options.rescore:
            raise ValueError("A sharded client merges token hits and cannot rescore documents.")
        chosen = _complete(options or SearchOptions())
        inputs = {"query": [query], "k_prime": chosen.k_prime}
        if chosen.leaves is not None:
            inputs["leaves"] = chosen.leaves
        predictions = list(
            self._pool.map(lambda client: client.predict("search_tokens", inputs), self._clients)
        )
        documents = _rank(_Hits(predictions), chosen)
        return SearchResult(query, documents, tuple(prediction.version for prediction in predictions))

    def close(self) -> None:
        """Ends all connections."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def __enter__(self) -> ShardedClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Hits:
    """The token hits of all shards side by side.

    Attributes:
        scores: `[tokens of the query, hits]`, `-inf` for none.
        documents: The same shape, positions in `ids`, -1 for none.
        ids: Of all documents that were hit, shard by shard, in document order.
        titles: Of the same.
        languages: Of the same.
    """

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        rows = {prediction.outputs["cutoffs"].shape for prediction in predictions}
        if len(rows) != 1:
            raise ClientError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "The servers do not split the query into the same tokens.",
            )
        scores, documents = [], []
        self.ids: list[bytes] = []
        self.titles: list[bytes] = []
        self.languages: list[bytes] = []
        for prediction in predictions:
            outputs = prediction.outputs
            shape = outputs["scores"].shape
            owners = np.array(outputs["documents"].values, np.int64).reshape(shape)
            scores.append(np.array(outputs["scores"].values, np.float32).reshape(shape))
            documents.append(np.where(owners >= 0, owners + len(self.ids), -1))
            self.ids.extend(outputs["document_ids"].values)
            self.titles.extend(outputs["titles"].values)
            self.languages.extend(outputs["languages"].values)
        self.documents = np.concatenate(documents, axis=1)
        self.scores = np.where(self.documents >= 0, np.concatenate(scores, axis=1), -np.inf)


def _complete(options: SearchOptions) -> SearchOptions:
    names = ("k_prime", "top_k", "leaves", "imputation", "constant", "languages")
    given = {name: getattr(options, name) for name in names}
    return SearchOptions(
        **{name: getattr(_DEFAULTS, name) if value is None else value for name, value in given.items()}
    )


def _rank(hits: _Hits, options: SearchOptions) -> tuple[Document, ...]:
    """f_XTR' over the best k' of all hits."""
    # Hits of a shard come in its own order of rank; a stable sort keeps it among equals.
    best = np.argsort(-hits.scores, axis=1, kind="stable")[:, : options.k_prime]
    scores = np.take_along_axis(hits.scores, best, axis=1)
    owners = np.take_along_axis(hits.documents, best, axis=1)
    missing = _missing(scores, owners >= 0, options)
    kept = owners >= 0
    if wanted := {language.encode() for language in options.languages or () if language}:
        kept &= np.array([language in wanted for language in hits.languages], bool)[owners]

    rows = np.broadcast_to(np.arange(len(scores))[:, np.newaxis], scores.shape)
    table = np.full([len(scores), len(hits.ids)], -np.inf)
    np.maximum.at(table, (rows[kept], owners[kept]), scores[kept])
    found = table > -np.inf
    gains = np.where(found, table - missing[:, np.newaxis], 0.0).sum(axis=0)
    count = found.sum(axis=0)
    tokens = count if options.imputation == "none" else len(scores)
    total = np.where(count > 0, (missing.sum() + gains) / np.maximum(tokens, 1), -np.inf)
    order = np.argsort(-total, kind="stable")[: options.top_k]
    return tuple(
        Document(
            hits.ids[place].decode(),
            float(total[place]),
            hits.titles[place].decode(),
            hits.languages[place].decode(),
        )
        for place in order
        if count[place] > 0
    )


def _missing(scores: np.ndarray, valid: np.ndarray, options: SearchOptions) -> np.ndarray:
    """What a query token counts with for a document of which it retrieved nothing, `[tokens]`."""
    if options.imputation == "top_k_prime":
        lowest = np.where(valid, scores, np.inf).min(axis=1, initial=np.inf)
        return np.where(np.isfinite(lowest), lowest, 0.0)
    constant = options.constant if options.imputation == "constant" else 0.0
    return np.full(len(scores), constant)
