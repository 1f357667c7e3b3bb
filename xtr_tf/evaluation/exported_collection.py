"""A collection under test: its partitions are searched one after the other, and merged as an aggregator does.

Only one partition is in memory at a time, so that one machine can measure what needs many servers. Knows
nothing about servers or Python TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import require
from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.evaluation.exported_model import QUERIES_AT_ONCE, ExportedModel
from xtr_tf.evaluation.run import Run
from xtr_tf.progress import track
from xtr_tf.retriever.collection_file import COLLECTION_FILE, read_collection
from xtr_tf.scoring.merging import (
    OF_HITS,
    OF_TERMS,
    MergedHits,
    PartitionHits,
    PartitionTerms,
    Scoring,
    partition_hits,
)
from xtr_tf.vectors.query_encoder import EncodedQuery

#: Returns a context with a partition's folder, which exists while the context is open.
Fetch = Callable[[str], contextlib.AbstractContextManager[Path]]


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Queries as vectors, `[queries, length, …]`, their texts, and the number of each among all queries."""

    rows: np.ndarray
    texts: list[str]
    encodings: np.ndarray
    mask: np.ndarray
    idf: np.ndarray | None

    def weights(self, place: int, token_weights: str) -> np.ndarray | None:
        """Weights of the tokens of a query; None if all count the same."""
        return self.idf[place][self.mask[place]] if token_weights == "idf" and self.idf is not None else None


@dataclasses.dataclass
class _Found:
    """The best hits of one query so far, and its candidates, counted in the collection."""

    hits: PartitionHits
    documents: np.ndarray


class ExportedCollection:
    """A collection of `xtr-tf export --partitions`, with the methods of `ExportedModel`.

    Args:
        directory: The folder of `collection.json` and of the partitions.
        fetch: Returns a context with a partition's folder, from its path below `directory`; by default the
            folder itself.
    """

    def __init__(self, directory: str | Path, fetch: Fetch | None = None) -> None:
        self.directory = Path(directory)
        self._fetch = fetch or (lambda path: contextlib.nullcontext(self.directory / path))
        self._fetched = contextlib.ExitStack()
        self._collection = read_collection(self.directory / COLLECTION_FILE)
        self._first_documents = np.cumsum([0, *(entry.documents for entry in self._collection.partitions)])
        self._number, self._opened = 0, self._load(0)
        self.has_lexical, self.default_alpha = self._opened.has_lexical, self._opened.default_alpha

    def search(
        self,
        name: str,
        queries: Sequence[Query],
        depth: int,
        k_prime: int | None = None,
        token_weights: str | None = None,
        alpha: float | None = None,
    ) -> Run:
        """Searches all partitions; see `ExportedModel.search`.

        Raises:
            InputError: `alpha` is set, and the partitions have no BM25.
        """
        alpha = self.default_alpha if alpha is None else alpha
        require(
            self.has_lexical or not alpha,
            "`alpha` needs an index with BM25: built with `lexical` words or ngrams.",
            alpha,
        )
        defaults = {key: value[0] for key, value in self._opened.defaults("search").items()}
        scoring = Scoring(
            int(k_prime or defaults["k_prime"]),
            depth,
            defaults["imputation"].decode(),
            float(defaults["constant"]),
            float(defaults["min_score"]),
            alpha=alpha,
            fusion=defaults["fusion"].decode(),
        )
        weighted = token_weights or defaults["token_weights"].decode()
        batches = self._encode(queries)
        found = self._find(batches, len(queries), scoring)
        rankings: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for batch in batches:
            for place, row in enumerate(batch.rows.tolist()):
                weights = batch.weights(place, weighted)
                rankings[row] = _rank(found[row], dataclasses.replace(scoring, weights=weights))
        found_documents = [np.empty(0, np.int64), *(own for own, _ in rankings.values())]
        ids = self._look_up(np.unique(np.concatenate(found_documents)))
        return Run(
            name,
            {
                query.id: ([ids[document] for document in documents.tolist()], scores)
                for row, query in enumerate(queries)
                for documents, scores in [rankings.get(row, (np.empty(0, int), np.empty(0, np.float32)))]
            },
        )

    def encode_queries(self, texts: Sequence[str], token_weights: str | None = None) -> list[EncodedQuery]:
        """Encodes queries, with the weights of the collection.

        Args:
            texts: The queries.
            token_weights: Weights of query tokens; the collection's own default if None.

        Returns:
            One entry per query.
        """
        if token_weights is None:
            token_weights = self._opened.defaults("search")["token_weights"][0].decode()
        encoded = [EncodedQuery(np.empty((0, 0), np.float32))] * len(texts)
        for batch in self._encode([Query(str(row), text) for row, text in enumerate(texts)]):
            for place, row in enumerate(batch.rows.tolist()):
                vectors = batch.encodings[place][batch.mask[place]]
                encoded[row] = EncodedQuery(vectors, weights=batch.weights(place, token_weights))
        return encoded

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> CorpusTokens:
        """Encodes a corpus; see `ExportedModel.encode_documents`."""
        return self._opened.encode_documents(documents, dataset)

    def close(self) -> None:
        """Frees the partition that is in memory."""
        self._opened.close()
        self._fetched.close()

    def _load(self, number: int) -> ExportedModel:
        entry = self._collection.partitions[number]
        folder = self._fetched.enter_context(self._fetch(f"{entry.path}/{entry.version}"))
        return ExportedModel(folder)

    def _partition(self, number: int) -> ExportedModel:
        """Opens the model of a partition, and closes the one before it."""
        if number != self._number:
            self.close()
            self._number, self._opened = number, self._load(number)
        return self._opened

    def _encode(self, queries: Sequence[Query]) -> list[_Batch]:
        """Encodes the queries that have text, in batches; all partitions have the same encoder."""
        batches = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            texts = [query.text for query in queries[start : start + QUERIES_AT_ONCE]]
            answer = self._opened.run("encode_query", {"query": texts})
            # Only the end of the sequence: the query has no text.
            rows = np.flatnonzero(answer["mask"].sum(axis=1) > 1)
            if len(rows):
                idf = answer["idf"][rows] if "idf" in answer else None
                own = [texts[row] for row in rows.tolist()]
                vectors = answer["encodings"][rows], answer["mask"][rows]
                batches.append(_Batch(start + rows, own, *vectors, idf))
        return batches

    def _find(self, batches: Sequence[_Batch], count: int, scoring: Scoring) -> list[_Found | None]:
        """The best hits of all partitions for each query, with `alpha` also the best by BM25."""
        found: list[_Found | None] = [None] * count
        others = PartitionTerms.depth(scoring.top_k, scoring.fusion)
        partitions = range(len(self._collection.partitions))
        with track("search", len(partitions) * len(batches), "batches") as progress:
            for number in partitions:
                model = self._partition(number)
                for batch in batches:
                    answer = self._ask(model, batch, scoring, others)
                    for place, row in enumerate(batch.rows.tolist()):
                        hits, ordinals = partition_hits(answer, place, batch.mask[place])
                        own = _Found(hits, ordinals.astype(np.int64) + self._first_documents[number])
                        found[row] = _merged(found[row], own, scoring.k_prime, others)
                    progress.advance(1)
        return found

    @staticmethod
    def _ask(model: ExportedModel, batch: _Batch, scoring: Scoring, others: int) -> dict[str, np.ndarray]:
        inputs: dict[str, Any] = {
            "encodings": batch.encodings,
            "mask": batch.mask,
            "k_prime": np.array([scoring.k_prime], np.int32),
        }
        if not scoring.alpha:
            return model.run("search_vectors_tokens", inputs, OF_HITS)
        inputs |= {"query": batch.texts, "top_k": np.array([others], np.int32)}
        return model.run("search_hybrid_tokens", inputs, (*OF_HITS, *OF_TERMS))

    def _look_up(self, documents: np.ndarray) -> dict[int, str]:
        """Ids of documents, counted in the collection."""
        owners = np.searchsorted(self._first_documents, documents, side="right") - 1
        ids: dict[int, str] = {}
        # The partition that was searched last is still in memory.
        for number in reversed(np.unique(owners).tolist()):
            own = documents[owners == number]
            ordinals = (own - self._first_documents[number]).astype(np.int32)[np.newaxis]
            asked = {"documents": ordinals, "tokens": np.full((1, 1, 1), -1, np.int32)}
            answer = self._partition(number).run("look_up", asked, ("document_ids",))
            ids.update(zip(own.tolist(), (key.decode() for key in answer["document_ids"][0]), strict=True))
        return ids


def _merged(before: _Found | None, own: _Found, k_prime: int, others: int) -> _Found:
    """The best k' hits of both for each query token, their documents, and the best other ones by BM25."""
    parts = [own] if before is None else [before, own]
    merged = MergedHits([part.hits for part in parts], k_prime)
    documents = np.concatenate([part.documents for part in parts])
    kept = np.zeros(len(documents), bool)
    kept[merged.documents[merged.documents >= 0]] = True
    if merged.lexical is not None:
        without_hit = np.where(kept, 0, merged.lexical)
        best = np.argsort(-without_hit, kind="stable")[:others]
        kept[best[without_hit[best] > 0]] = True
    # The last place is that of no document.
    places = np.where(np.append(kept, False), np.cumsum(np.append(kept, False)) - 1, -1)
    hits = PartitionHits(
        merged.scores,
        places[merged.documents],
        int(kept.sum()),
        lexical=None if merged.lexical is None else merged.lexical[kept],
        num_allowed=merged.num_allowed,
    )
    return _Found(hits, documents[kept])


def _rank(found: _Found | None, scoring: Scoring) -> tuple[np.ndarray, np.ndarray]:
    """Documents, counted in the collection, and their scores."""
    assert found is not None
    ranked = MergedHits([found.hits], scoring.k_prime).rank(scoring)
    return found.documents[ranked.positions], ranked.scores
