"""Searching an index that is spread over several servers, with the answer that one index would give.

Each server holds some of the documents, whole, and the same encoder. Each is asked for its best k' tokens for
every query token, which `xtr_tf/scoring/merging.py` merges: this file, unlike the rest of the folder, needs
xtr-tf and NumPy (but no TensorFlow). For a collection of `xtr-tf export --partitions`, `xtr-tf serve
--collection` does the same for any client, and encodes a query once.
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
            ValueError: `rescore` or `alpha` is set (hits carry neither vectors nor terms to rank by), or an
                unknown imputation or kind of weights.
            ClientError: A server did not answer, or does not split the query into the same tokens;
                an answer without one of the shards would be a wrong one.
        """
        if options and options.rescore:
            raise ValueError("A sharded client merges token hits and cannot rescore documents.")
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
        """Ends all connections."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def __enter__(self) -> ShardedClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Answers:
    """What all shards answered to `search_tokens`.

    Attributes:
        hits: Of each shard.
        ids: Of all documents that were hit, shard by shard, in document order.
        titles: Of the same.
        languages: Of the same.
    """

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        # A server that joins requests pads this query to the longest of its batch.
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
        return np.array(output.values, dtype).reshape(output.shape[1:])  # of the one query

    def idf(self) -> np.ndarray:
        """What each query token counts for in all shards together, `[tokens of the query]`."""
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
        # All have the same encoder, and so the same background.
        background = np.array(outputs["piece_background"].values)[mask]
        return idf_weights(documents, total, background if background.any() else None)


def _rank(answers: _Answers, token_weights: str, **scoring: Any) -> tuple[Hit, ...]:
    chosen = Scoring(**scoring, weights=answers.idf() if token_weights == "idf" else None)
    [ordinals], [ranked] = MergedHits(answers.hits, chosen.k_prime).rank(chosen)
    return tuple(
        Hit(
            answers.ids[ordinal].decode(),
            float(score),
            title=answers.titles[ordinal].decode(),
            language=answers.languages[ordinal].decode(),
        )
        for ordinal, score in zip(ordinals.tolist(), ranked, strict=True)
        if ordinal >= 0
    )
