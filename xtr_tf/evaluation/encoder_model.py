"""An encoder's directory under test: each corpus is encoded and searched exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from xtr_tf.corpus.document import Document
from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.exact_retriever import ExactRetriever
from xtr_tf.evaluation.loaded_encoder import LoadedEncoder
from xtr_tf.evaluation.model_result import ModelResult
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.settings import EvaluationSettings
from xtr_tf.evaluation.token_analysis import TokenAnalysis, analyse_tokens
from xtr_tf.evaluation.token_encoder import EncodedQuery
from xtr_tf.evaluation.worked_examples import WorkedExample, work_examples


class EncoderModel:
    """A trained encoder without an index.

    Args:
        directory: What `xtr_tf.encoder.save_encoder` wrote.
    """

    kind = "encoder, searched exactly"

    def __init__(self, directory: str | Path) -> None:
        self.name = Path(directory).resolve().name
        self._encoder = LoadedEncoder.load(directory)

    def evaluate(
        self, dataset: Dataset, documents: Sequence[Document], depth: int, settings: EvaluationSettings
    ) -> ModelResult:
        """Runs f_XTR' and f_ColBERT on a dataset, and analyses a sample of its queries."""
        started = time.perf_counter()
        index = self._encoder.encode_documents(documents, dataset.name)
        queries = self._encoder.encode_queries([query.text for query in dataset.queries])
        encoded = time.perf_counter()
        retriever = ExactRetriever(index)
        rankings = retriever.search(queries, settings.k_prime, depth)
        ids = [query.id for query in dataset.queries]
        runs = {
            system: Run.from_arrays(system, ids, index.document_ids, *ranking)
            for system, ranking in zip(("xtr", "colbert"), rankings, strict=True)
        }
        searched = time.perf_counter()
        analysis, examples = self._analyse(retriever, dataset, queries, settings)
        return ModelResult(
            runs=runs,
            tokens=index.num_tokens,
            seconds={
                "encode": encoded - started,
                "search": searched - encoded,
                "analyse": time.perf_counter() - searched,
            },
            analysis=analysis,
            examples=examples,
        )

    def _analyse(
        self,
        retriever: ExactRetriever,
        dataset: Dataset,
        queries: Sequence[EncodedQuery],
        settings: EvaluationSettings,
    ) -> tuple[TokenAnalysis | None, list[WorkedExample]]:
        if not settings.analysis_queries or dataset.is_judged_by_answers:
            return None, []
        sample = dataset.sample(settings.analysis_queries, settings.seed)
        chosen = {query.id for query in sample.queries}
        encoded = [own for query, own in zip(dataset.queries, queries, strict=True) if query.id in chosen]
        analysis = analyse_tokens(retriever, sample, encoded, settings.k_prime)
        return analysis, work_examples(retriever, sample, encoded, settings.examples)
