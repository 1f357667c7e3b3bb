"""Searching an index that is spread over several servers, with the answer that one index would give.

Each server holds some of the documents, whole, and the same encoder. Each is asked for its best k'
tokens for every query token; the best k' of all of them are those of one big index, and so are the
cut-offs, which are what imputation needs and what a merge of document scores could not know. The
scoring is `xtr_tf.scoring.reference`, so that this file, unlike the rest of the folder, needs xtr-tf
and NumPy (but no TensorFlow).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from xtr_tf.config.retrieval import TOKEN_WEIGHTS
from xtr_tf.errors import require
from xtr_tf.scoring.reference import (
    idf_weights,
    maxima_of_hits,
    rank_documents,
    row_cutoffs,
    xtr_scores,
)

from .client import Client, SearchOptions
from .results import ClientError, Hit, Prediction, SearchResult

_DEFAULTS: Mapping[str, Any] = {
    "k_prime": 1000,
    "top_k": 10,
    "imputation": "top_k_prime",
    "constant": 0.0,
    "token_weights": "none",
    "min_score": -math.inf,
}


class ShardedClient:
    """Asks all servers at once and merges their token hits.

    Args:
        clients: One per server. A document belongs to one of them; where scores are equal, those of
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
            ValueError: `rescore` is set (hits carry no vectors to rank by), or an unknown imputation or
                kind of weights.
            ClientError: A server did not answer, or does not split the query into the same tokens;
                an answer without one of the shards would be a wrong one.
        """
        if options and options.rescore:
            raise ValueError("A sharded client merges token hits and cannot rescore documents.")
        require(
            not options or options.token_weights in (None, *TOKEN_WEIGHTS),
            f"`token_weights` must be one of {', '.join(TOKEN_WEIGHTS)}.",
            options and options.token_weights,
        )
        given = {name: value for name, value in vars(options or SearchOptions()).items() if value is not None}
        chosen = {**_DEFAULTS, **given}
        searched = SearchOptions(
            **{name: chosen.get(name) for name in ("k_prime", "leaves", "languages", "filter")}
        )
        inputs = {"query": [query], **searched.inputs()}
        predictions = list(
            self._pool.map(lambda client: client.predict("search_tokens", inputs), self._clients)
        )
        documents = _rank(_MergedHits(predictions), **{name: chosen[name] for name in _DEFAULTS})
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


class _MergedHits:
    """The token hits of all shards next to each other.

    Attributes:
        scores: `[tokens of the query, hits]`, `-inf` for none.
        documents: The same shape, positions in `ids`, -1 for none.
        ids: Of all documents that were hit, shard by shard, in document order.
        titles: Of the same.
        languages: Of the same.
    """

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        # A server that joins requests pads this query to the longest of its batch.
        masks = [np.array(prediction.outputs["mask"].values, bool) for prediction in predictions]
        if len({int(mask.sum()) for mask in masks}) != 1:
            raise ClientError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "The servers do not split the query into the same tokens.",
            )
        scores, documents = [], []
        self.ids: list[bytes] = []
        self.titles: list[bytes] = []
        self.languages: list[bytes] = []
        for prediction, mask in zip(predictions, masks, strict=True):
            outputs = prediction.outputs
            shape = outputs["scores"].shape[1:]  # of the one query
            of_shard = np.array(outputs["documents"].values, np.int64).reshape(shape)[mask]
            scores.append(np.array(outputs["scores"].values, np.float32).reshape(shape)[mask])
            documents.append(np.where(of_shard >= 0, of_shard + len(self.ids), -1))
            self.ids.extend(outputs["document_ids"].values)
            self.titles.extend(outputs["titles"].values)
            self.languages.extend(outputs["languages"].values)
        self.documents = np.concatenate(documents, axis=1)
        self.scores = np.where(self.documents >= 0, np.concatenate(scores, axis=1), -np.inf)
        self._predictions, self._masks = predictions, masks

    def idf(self) -> np.ndarray:
        """What each query token counts for in all shards together, `[tokens of the query]`."""
        documents, total = np.zeros(len(self.scores), np.int64), 0
        for prediction, mask in zip(self._predictions, self._masks, strict=True):
            outputs = prediction.outputs
            if "piece_documents" not in outputs:
                raise ClientError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    "`token_weights` needs indexes that have counted the pieces of their documents.",
                )
            documents += np.array(outputs["piece_documents"].values)[mask]
            total += outputs["num_documents"].values[0]
        # All have the same encoder, and so the same background.
        background = np.array(outputs["piece_background"].values)[mask]
        return idf_weights(documents, total, background if background.any() else None)

    def best(self, k_prime: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and documents of the best `k_prime` hits of each query token, over all shards."""
        # Hits of a shard come in its own order of rank; a stable sort keeps it among equals.
        order = np.argsort(-self.scores, axis=1, kind="stable")[:, :k_prime]
        scores = np.take_along_axis(self.scores, order, axis=1)
        return scores, np.take_along_axis(self.documents, order, axis=1)


def _rank(
    hits: _MergedHits,
    k_prime: int,
    top_k: int,
    imputation: str,
    constant: float,
    token_weights: str,
    min_score: float,
) -> tuple[Hit, ...]:
    """f_XTR' over the best k' of all hits."""
    scores, documents = hits.best(k_prime)
    cutoffs = row_cutoffs(scores, documents >= 0)
    maxima = maxima_of_hits(scores, documents, len(hits.ids))
    totals = xtr_scores(
        maxima,
        maxima > -np.inf,
        cutoffs,
        imputation=imputation,
        constant=constant,
        weights=hits.idf() if token_weights == "idf" else None,
    )
    [ordinals], [ranked] = rank_documents(totals, top_k)
    return tuple(
        Hit(
            hits.ids[ordinal].decode(),
            float(score),
            title=hits.titles[ordinal].decode(),
            language=hits.languages[ordinal].decode(),
        )
        for ordinal, score in zip(ordinals, ranked, strict=True)
        if ordinal >= 0 and score >= min_score
    )
