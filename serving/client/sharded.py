"""Search in an index that is sharded over several servers, with the same answer as from one index.

Every server has the same encoder and a part of the documents. It returns the best k' document tokens per
query token, and `xtr_tf/scoring/merging.py` merges them. Unlike the rest of this folder, this file needs
xtr-tf and NumPy (but not TensorFlow). For collections made by `xtr-tf export --partitions`, `xtr-tf serve
--collection` does the same for any client and encodes each query only once.
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
from xtr_tf.scoring.merging import MergedHits, PartitionHits, Scoring
from xtr_tf.scoring.reference import idf_weights

from .base import SearchOptions
from .client import Client
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
    """Queries all servers at the same time and merges their token hits.

    Args:
        clients: One client per server. Every document is on exactly one server. Where scores are equal,
            documents of earlier servers come first.

    Raises:
        ValueError: `clients` is empty.

    Example:
        >>> sharded = ShardedClient([Client("a:8500"), Client("b:8500")])
        >>> sharded.search("highest mountain", SearchOptions(k_prime=4000)).documents
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        if not clients:
            raise ValueError("A sharded client needs at least one server. Received: ().")
        self._clients = tuple(clients)
        self._pool = ThreadPoolExecutor(len(self._clients), thread_name_prefix="shard")

    def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query.

        Args:
            query: Text to search for.
            options: Search parameters. The defaults of the servers may differ, so the paper's are used
                instead: k' = 1000 and imputation by the cut-off.

        Returns:
            The documents, best first, and the version of every server.

        Raises:
            ValueError: `rescore` or `alpha` is set, which need vectors and terms that hits do not have, or
                the imputation or the kind of weights is unknown.
            ClientError: A server did not answer, or splits the query into other tokens than the first. An
                answer without one of the shards would be wrong.
        """
        if options and options.rescore:
            raise ValueError(
                "A sharded client merges token hits and cannot rescore documents; leave out `rescore`. "
                f"Received: {options.rescore}."
            )
        require(
            not (options and options.alpha),
            "A sharded client merges token hits, which have no BM25; leave `alpha` at 0.",
            options and options.alpha,
        )
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
        documents = _rank(_Answers(predictions), **{name: chosen[name] for name in _DEFAULTS})
        return SearchResult(query, documents, tuple(prediction.version for prediction in predictions))

    def close(self) -> None:
        """Closes all connections."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def __enter__(self) -> ShardedClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Answers:
    """The answers of all shards to `search_tokens`.

    Attributes:
        hits: Hits of each shard.
        ids: Ids of all documents with hits, shard by shard, in document order.
        titles: Titles of these documents.
        languages: Languages of these documents.
    """

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        # A server that batches requests pads the query to the longest one of the batch.
        self._masks = [np.array(prediction.outputs["mask"].values, bool) for prediction in predictions]
        if len({int(mask.sum()) for mask in self._masks}) != 1:
            raise ClientError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "The servers do not split the query into the same tokens.",
            )
        self._predictions = predictions
        self.hits = [
            PartitionHits(
                self._of_rows(prediction, "scores", np.float32)[mask],
                self._of_rows(prediction, "documents", np.int64)[mask],
                len(prediction.outputs["document_ids"].values),
            )
            for prediction, mask in zip(predictions, self._masks, strict=True)
        ]
        self.ids, self.titles, self.languages = (
            [value for prediction in predictions for value in prediction.outputs[name].values]
            for name in ("document_ids", "titles", "languages")
        )

    @staticmethod
    def _of_rows(prediction: Prediction, name: str, dtype: type) -> np.ndarray:
        output = prediction.outputs[name]
        return np.array(output.values, dtype).reshape(output.shape[1:])  # there is only one query

    def idf(self) -> np.ndarray:
        """Returns the weights of query tokens by their frequency in all shards, `[query tokens]`."""
        documents, total = np.zeros(int(self._masks[0].sum()), np.int64), 0
        for prediction, mask in zip(self._predictions, self._masks, strict=True):
            outputs = prediction.outputs
            if "piece_documents" not in outputs:
                raise ClientError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    "`token_weights` needs indexes that have counted the pieces of their documents.",
                )
            documents += np.array(outputs["piece_documents"].values)[mask]
            total += outputs["num_documents"].values[0]
        # The background belongs to the encoder, which is the same everywhere.
        background = np.array(outputs["piece_background"].values)[mask]
        return idf_weights(documents, total, background if background.any() else None)


def _rank(answers: _Answers, token_weights: str, **scoring: Any) -> tuple[Hit, ...]:
    chosen = Scoring(**scoring, weights=answers.idf() if token_weights == "idf" else None)
    ranked = MergedHits(answers.hits, chosen.k_prime).rank(chosen)
    return tuple(
        Hit(
            answers.ids[ordinal].decode(),
            float(score),
            title=answers.titles[ordinal].decode(),
            language=answers.languages[ordinal].decode(),
        )
        for ordinal, score in zip(ranked.positions.tolist(), ranked.scores, strict=True)
    )
