"""An exported model under test: its own index is searched, and a sample of the queries also exactly.

Runs the SavedModel through the C library. Knows nothing about Python TensorFlow or how the model was made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.encoded import CorpusTokens, check_size
from xtr_tf.evaluation.evaluator import EvaluationSettings
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.metrics import measure, metrics_for
from xtr_tf.evaluation.results import ExactCheck, ModelResult
from xtr_tf.evaluation.run import Run
from xtr_tf.progress import track
from xtr_tf.retriever.collection_file import COLLECTION_FILE
from xtr_tf.retriever.versions import latest_version
from xtr_tf.runtime.saved_model_session import SavedModelSession
from xtr_tf.runtime.signature import Session
from xtr_tf.scoring.reference import idf_weights
from xtr_tf.vectors.query_encoder import EncodedQuery, batches_by_length

#: For more documents, encoding the corpus for the exact search would take too long.
EXACT_DOCUMENTS = 50_000


class IndexModel:
    """A model version with its own index, or a collection of partitions.

    Args:
        model: A version, the base directory of versions, or the folder of a `collection.json`; or an
            opened one.
    """

    kind = "exported model, its own index"

    def __init__(self, model: str | Path | _Searchable) -> None:
        self._model = open_exported(Path(model)) if isinstance(model, (str, Path)) else model
        self.name = "/".join(self._model.directory.resolve().parts[-2:])

    def evaluate(
        self, dataset: Dataset, documents: Sequence[Document], depth: int, settings: EvaluationSettings
    ) -> ModelResult:
        """Searches the index for a dataset's queries.

        Args:
            dataset: Queries and judgements.
            documents: Its corpus, in order.
            depth: Documents to rank per query.
            settings: Settings of the evaluation.

        Returns:
            The runs by system, and the analyses.
        """
        started = time.perf_counter()
        alpha = self._model.default_alpha
        asked = (dataset.queries, depth, settings.k_prime, settings.token_weights or None)
        tokens_only = 0.0 if self._model.has_lexical else None
        run = self._model.search("xtr", *asked, alpha=tokens_only)
        runs = {"xtr": run}
        if self._model.has_lexical and (alpha or settings.fusion):
            runs["fusion"] = self._model.search("fusion", *asked, alpha=alpha or settings.alpha)
        searched = time.perf_counter()
        check = self._check(dataset, documents, depth, settings, run)
        seconds = {"search": searched - started, "exact check": time.perf_counter() - searched}
        served = "fusion" if alpha else "xtr"
        return ModelResult(runs=runs, seconds=seconds, exact_check=check, served=served)

    def _check(
        self,
        dataset: Dataset,
        documents: Sequence[Document],
        depth: int,
        settings: EvaluationSettings,
        run: Run,
    ) -> ExactCheck:
        if not settings.exact_queries:
            return ExactCheck(note="not asked for")
        if dataset.is_judged_by_answers:
            return ExactCheck(note="not for datasets judged by answers")
        if len(documents) > EXACT_DOCUMENTS:
            return ExactCheck(note=f"the corpus has more than {EXACT_DOCUMENTS:,} documents")
        sample = dataset.sample(settings.exact_queries, settings.seed)
        corpus = self._model.encode_documents(documents, dataset.name)
        queries = self._model.encode_queries(
            [query.text for query in sample.queries], settings.token_weights or None
        )
        rankings = ExactRetriever(corpus).search(queries, settings.k_prime, depth)
        ids = [query.id for query in sample.queries]
        runs = {"index": run}
        for system, ranking in zip(("exact_xtr", "exact_colbert"), rankings, strict=True):
            runs[system] = Run.from_arrays(system, ids, corpus.document_ids, *ranking)
        metrics = metrics_for(by_answers=False, depth=depth)
        measured = {system: measure(run, dataset.judgements, ids, metrics) for system, run in runs.items()}
        return ExactCheck(
            queries=len(ids),
            metrics={
                system: {metric: float(of_queries.mean()) for metric, of_queries in values.items()}
                for system, values in measured.items()
            },
            overlap_at_10=_overlap(runs["exact_xtr"], run, ids),
            cut_documents=corpus.cut_documents,
        )


class _Searchable(Protocol):
    """What `IndexModel` needs of a model or a collection."""

    directory: Path
    has_lexical: bool
    default_alpha: float

    def search(
        self,
        name: str,
        queries: Sequence[Query],
        depth: int,
        k_prime: int | None = None,
        token_weights: str | None = None,
        alpha: float | None = None,
    ) -> Run: ...

    def encode_queries(
        self, texts: Sequence[str], token_weights: str | None = None
    ) -> list[EncodedQuery]: ...

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> CorpusTokens: ...


def open_exported(directory: Path) -> _Searchable:
    """Opens a model version, the newest below a base directory, or the collection in a folder.

    Args:
        directory: The directory.

    Returns:
        The opened model or collection.
    """
    if not (directory / COLLECTION_FILE).is_file():
        return ExportedModel(directory)
    from xtr_tf.evaluation.exported_collection import ExportedCollection

    return ExportedCollection(directory)


def _overlap(exact: Run, approximate: Run, queries: Sequence[str], depth: int = 10) -> float:
    shares = []
    for query in queries:
        wanted = set(exact.documents(query)[:depth])
        if wanted:
            shares.append(len(wanted & set(approximate.documents(query)[:depth])) / len(wanted))
    return float(np.mean(shares)) if shares else 0.0


#: Queries per call.
QUERIES_AT_ONCE = 32
_UNITS = {"query": "queries", "document": "documents"}
_DOCUMENTS_AT_ONCE = 32


class ExportedModel:
    """A model of `xtr-tf export`.

    Args:
        directory: A version, or a base directory, whose newest version is used.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = latest_version(Path(directory))
        self._session = SavedModelSession(self.directory)
        signature = self._session.signatures["search"]
        self.has_lexical = "lexical_scores" in signature.outputs
        self.default_alpha = float(self._session.defaults("search")["alpha"][0]) if self.has_lexical else 0.0

    def search(
        self,
        name: str,
        queries: Sequence[Query],
        depth: int,
        k_prime: int | None = None,
        token_weights: str | None = None,
        alpha: float | None = None,
    ) -> Run:
        """Searches the model's own index.

        Args:
            name: Name of the run.
            queries: The queries; one without text finds nothing.
            depth: Documents to rank per query.
            k_prime: Tokens that each query token retrieves; the model's own default if None.
            token_weights: Weights of query tokens; the model's own default if None.
            alpha: Weight of BM25; the model's own default if None.

        Returns:
            The rankings.
        """
        given = {"top_k": depth, "k_prime": k_prime, "token_weights": token_weights, "alpha": alpha}
        request = {name: [value] for name, value in given.items() if value is not None}
        return search_all(self._session, name, queries, request)

    def run(
        self, signature: str, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Runs a signature; see `SavedModelSession.run`."""
        return self._session.run(signature, inputs, outputs)

    def defaults(self, signature: str) -> dict[str, np.ndarray]:
        """Returns the inputs of a signature that have defaults, with their values."""
        return self._session.defaults(signature)

    def close(self) -> None:
        """Frees the model."""
        self._session.close()

    def encode_queries(self, texts: Sequence[str], token_weights: str | None = None) -> list[EncodedQuery]:
        """Encodes queries, with the weights of the model's own index.

        Args:
            texts: The queries.
            token_weights: Weights of query tokens; the model's own default if None.

        Returns:
            One entry per query.
        """
        if token_weights is None:
            token_weights = self._session.defaults("search")["token_weights"][0].decode()
        encoded = self._encode("encode_query", "query", texts, QUERIES_AT_ONCE)
        return [
            EncodedQuery(
                vectors if len(vectors) > 1 else vectors[:0],
                weights=self._idf(text) if token_weights == "idf" and len(vectors) > 1 else None,
            )
            for text, vectors in zip(texts, encoded, strict=True)
        ]

    def _idf(self, text: str) -> np.ndarray:
        answer = self._session.run("search_tokens", {"query": [text], "k_prime": [1]})
        background = answer["piece_background"][0]
        return idf_weights(
            answer["piece_documents"][0],
            int(answer["num_documents"][0]),
            background if background.any() else None,
        )

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> CorpusTokens:
        """Encodes a corpus; documents that are longer than the model's limit are cut.

        Args:
            documents: The corpus.
            dataset: Its name, for messages.

        Returns:
            Vectors, and where each document begins.

        Raises:
            InputError: The corpus does not fit into memory.
        """
        texts = [document.full_text for document in documents]
        encoded = self._encode("encode_document", "document", texts, _DOCUMENTS_AT_ONCE, dataset)
        lengths = np.array([len(vectors) for vectors in encoded])
        return CorpusTokens(
            documents,
            np.concatenate(encoded),
            np.cumsum([0, *lengths]),
            # The model does not say how long its input may be; many of the largest length suggest it.
            cut_documents=_count_at_limit(lengths),
        )

    def _encode(
        self, signature: str, name: str, texts: Sequence[str], at_once: int, dataset: str = ""
    ) -> list[np.ndarray]:
        encoded: list[np.ndarray] = [np.empty(0)] * len(texts)
        tokens = 0
        with track("encode", len(texts), _UNITS[name]) as progress:
            for batch in batches_by_length(texts, at_once):
                answer = self._session.run(signature, {name: [texts[position] for position in batch]})
                for position, vectors, mask in zip(batch, answer["encodings"], answer["mask"], strict=True):
                    encoded[position] = vectors[mask]
                    tokens += len(encoded[position])
                check_size(tokens, dataset)
                progress.advance(len(batch))
        return encoded


def search_all(session: Session, name: str, queries: Sequence[Query], request: Mapping[str, Any]) -> Run:
    """Calls the signature `search` for all queries.

    Args:
        session: Session of a model, exported or not.
        name: Name of the run.
        queries: The queries; one without text finds nothing.
        request: Parameters by name, one value each for all queries.

    Returns:
        The rankings.
    """
    rankings = {}
    with track("search", len(queries), "queries") as progress:
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            group = queries[start : start + QUERIES_AT_ONCE]
            for query, (ids, scores) in zip(group, _search(session, group, request), strict=True):
                is_result = np.isfinite(scores)
                rankings[query.id] = ([key.decode() for key in ids[is_result]], scores[is_result])
            progress.advance(len(group))
    return Run(name, rankings)


def _search(session: Session, queries: Sequence[Query], request: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Ids and scores of each query; if the model refuses a batch, its queries are sent one by one."""
    try:
        answer = session.run("search", {"query": [query.text for query in queries], **request})
    except InputError:
        if len(queries) > 1:
            return [result for query in queries for result in _search(session, [query], request)]
        # A text without tokens has only the end of the sequence.
        if session.run("encode_query", {"query": [queries[0].text]})["mask"].sum() > 1:
            raise
        return [(np.empty(0, object), np.empty(0, np.float32))]
    return list(zip(answer["document_ids"], answer["scores"], strict=True))


def _count_at_limit(lengths: np.ndarray) -> int:
    """Counts the documents of the largest length, if there are too many for a coincidence."""
    longest = int(np.count_nonzero(lengths == lengths.max()))
    return longest if longest > 1 else 0
