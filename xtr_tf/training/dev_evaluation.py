"""Searches development sets exactly under f_XTR' during training, and measures by language.

Meant for sets of some thousands of documents: all of them are encoded again each time, and their vectors are
kept in memory. The maxima come from the op of the loss, which runs on the training devices. The scoring is
`scoring.reference`. The evaluation of a finished model, with an index, is elsewhere.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from xtr_tf.config.training import DataConfig
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.scoring.reference import rank_documents, xtr_scores
from xtr_tf.training.data.dev_sets import DevSet, open_dev_sets
from xtr_tf.training.losses.maxsim import max_similarities

_ENCODED_AT_ONCE = 32
_QUERIES_AT_ONCE = 16
_DOCUMENTS_AT_ONCE = 128
_RANKED = 100

Encode = Callable[[tf.Tensor], tf.Tensor]


class DevEvaluation:
    """The development sets of a run.

    Args:
        config: Settings with the development sets.
        tokenizer: Tokenizer of the run.
        k_prime: Tokens that each query token retrieves.

    Raises:
        InputError: A set cannot be read, or has no documents or no judged queries.
    """

    def __init__(self, config: DataConfig, tokenizer: Tokenizer, k_prime: int) -> None:
        self._sets = open_dev_sets(config, tokenizer)
        self._k_prime = k_prime

    def __bool__(self) -> bool:
        return bool(self._sets)

    def __call__(self, encode: Encode) -> dict[str, float]:
        """Measures an encoder.

        Args:
            encode: Function from ids `[rows, length]` to vectors, without dropout.

        Returns:
            `MRR@10` and `nDCG@10` averaged over sets, and for each language of a set as
            `SET/LANGUAGE/MRR@10`.
        """
        measured: dict[str, float] = {}
        totals: dict[str, list[float]] = collections.defaultdict(list)
        for dev_set in self._sets:
            rankings = self._search(dev_set, encode)
            for language, values in _measure(dev_set, rankings).items():
                for name, value in values.items():
                    if language:
                        measured[f"{dev_set.name}/{language}/{name}"] = value
                    else:
                        totals[name].append(value)
        return {**{name: float(np.mean(values)) for name, values in totals.items()}, **measured}

    def _search(self, dev_set: DevSet, encode: Encode) -> dict[str, dict[str, float]]:
        """Returns the best documents of each query, with their scores."""
        documents, names = dev_set.documents, dev_set.queries
        vectors, document_mask = _encode_all(dev_set.document_ids, encode)
        queries, query_mask = _encode_all(dev_set.query_ids, encode)
        rankings = {}
        for start in range(0, len(names), _QUERIES_AT_ONCE):
            rows = slice(start, start + _QUERIES_AT_ONCE)
            scores = exact_xtr_scores(queries[rows], query_mask[rows], vectors, document_mask, self._k_prime)
            for name, *ranked in zip(names[rows], *rank_documents(scores, _RANKED), strict=True):
                rankings[name] = {
                    documents[ordinal]: float(score)
                    for ordinal, score in zip(*ranked, strict=True)
                    if ordinal >= 0
                }
        return rankings


def exact_xtr_scores(
    queries: tf.Tensor, query_mask: tf.Tensor, documents: tf.Tensor, document_mask: tf.Tensor, k_prime: int
) -> np.ndarray:
    """Computes f_XTR' of every query and document, by exact search.

    Args:
        queries: `[Q, n, dim]`.
        query_mask: `[Q, n]`. Every query has at least one token, its end.
        documents: `[D, m, dim]`.
        document_mask: `[D, m]`.
        k_prime: Tokens that each query token retrieves.

    Returns:
        `[Q, D]` float32, `-inf` for documents of which no token was retrieved.
    """
    maxima, cutoffs = (tensor.numpy() for tensor in _maxima(queries, documents, document_mask, k_prime))
    mask = query_mask.numpy()
    starts = np.cumsum(np.append(0, mask.sum(axis=1)[:-1]))
    maxima, cutoffs = maxima[mask], cutoffs[mask]
    # A document without tokens has no maximum. If all tokens are retrieved, there is no cut-off.
    retrieved = np.isfinite(maxima) & (maxima >= cutoffs[:, np.newaxis])
    return xtr_scores(maxima, retrieved, cutoffs, starts)


@tf.function(reduce_retracing=True, autograph=False)
def _maxima(queries: tf.Tensor, documents: tf.Tensor, document_mask: tf.Tensor, k_prime: int) -> Any:
    """Returns `[Q, n, D]` maxima of query tokens in documents, and the `[Q, n]` k'-th best of all tokens."""
    candidates = tf.ones([tf.shape(queries)[0], tf.shape(documents)[0]], tf.bool)
    return max_similarities(queries, documents, document_mask, candidates, k_prime, block=_DOCUMENTS_AT_ONCE)


def _encode_all(ids: np.ndarray, encode: Encode) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns vectors `[texts, longest, dim]` and their mask, encoded in batches of similar length."""
    lengths = np.count_nonzero(ids, axis=1)
    longest = int(lengths.max())
    order = np.argsort(lengths, kind="stable")
    vectors: np.ndarray | None = None
    for part in _parts(order, _ENCODED_AT_ONCE):
        width = -(-int(lengths[part].max()) // 16) * 16
        encoded = encode(tf.constant(ids[part, :width])).numpy()[:, :longest]
        if vectors is None:
            vectors = np.zeros([len(ids), longest, encoded.shape[-1]], np.float32)
        vectors[part, : encoded.shape[1]] = encoded
    return tf.constant(vectors), tf.constant(ids[:, :longest] != 0)


def _parts(values: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _measure(dev_set: DevSet, rankings: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Returns the metrics by language, with the empty name for all queries."""
    import ir_measures
    from ir_measures import RR, nDCG

    metrics = {"MRR@10": RR @ 10, "nDCG@10": nDCG @ 10}
    languages = dict(zip(dev_set.queries, dev_set.languages, strict=True))
    values: dict[str, dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for measured in ir_measures.iter_calc(list(metrics.values()), dev_set.judgements, rankings):
        for name, metric in metrics.items():
            if measured.measure == metric:
                for language in ("", languages[measured.query_id]):
                    values[language][name].append(measured.value)
    return {
        language: {name: float(np.mean(of_queries)) for name, of_queries in by_name.items()}
        for language, by_name in values.items()
    }
