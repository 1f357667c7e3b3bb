"""An exported model under test: its own index is searched, and exactly a sample of the queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtr_tf.corpus.document import Document
from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.exact_retriever import ExactRetriever
from xtr_tf.evaluation.exported_model import ExportedModel
from xtr_tf.evaluation.measures import measure, metrics_for
from xtr_tf.evaluation.model_result import ExactCheck, ModelResult
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.settings import EvaluationSettings

# Beyond this, encoding a corpus for the exact search takes longer than anyone would wait for it.
_MOST_DOCUMENTS = 50_000


class IndexModel:
    """A model version with an index of its own.

    Args:
        directory: A version, or the base directory of versions.
    """

    kind = "exported model, its own index"

    def __init__(self, directory: str | Path) -> None:
        self._model = ExportedModel(directory)
        self.name = "/".join(self._model.directory.resolve().parts[-2:])

    def evaluate(
        self, dataset: Dataset, documents: Sequence[Document], depth: int, settings: EvaluationSettings
    ) -> ModelResult:
        """Searches the index for a dataset's queries."""
        started = time.perf_counter()
        run = self._model.search("xtr", dataset.queries, depth, settings.k_prime)
        searched = time.perf_counter()
        check = self._check(dataset, documents, depth, settings, run)
        seconds = {"search": searched - started, "exact check": time.perf_counter() - searched}
        return ModelResult(runs={"xtr": run}, seconds=seconds, exact_check=check)

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
        if len(documents) > _MOST_DOCUMENTS:
            return ExactCheck(note=f"the corpus has more than {_MOST_DOCUMENTS:,} documents")
        sample = dataset.sample(settings.exact_queries, settings.seed)
        index = self._model.encode_documents(documents, dataset.name)
        queries = self._model.encode_queries([query.text for query in sample.queries])
        rankings = ExactRetriever(index).search(queries, settings.k_prime, depth)
        ids = [query.id for query in sample.queries]
        runs = {"index": run}
        for system, ranking in zip(("exact_xtr", "exact_colbert"), rankings, strict=True):
            runs[system] = Run.from_arrays(system, ids, index.document_ids, *ranking)
        metrics = metrics_for(by_answers=False, depth=depth)
        values = {system: measure(own, dataset.judgements, ids, metrics) for system, own in runs.items()}
        return ExactCheck(
            queries=len(ids),
            metrics={
                system: {name: float(of_queries.mean()) for name, of_queries in own.items()}
                for system, own in values.items()
            },
            overlap_at_10=_overlap(runs["exact_xtr"], run, ids),
            cut_documents=index.cut_documents,
        )


def _overlap(exact: Run, found: Run, queries: Sequence[str], depth: int = 10) -> float:
    shares = []
    for query in queries:
        wanted = set(exact.documents(query)[:depth])
        if wanted:
            shares.append(len(wanted & set(found.documents(query)[:depth])) / len(wanted))
    return float(np.mean(shares)) if shares else 0.0
