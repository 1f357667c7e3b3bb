"""Measures a model and its baselines on datasets: settings, what a model must do, and the evaluator.

Knows nothing about how a model searches, or how a report shows its figures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import TOKEN_WEIGHTS, EncodingConfig
from xtr_tf.errors import InputError, require
from xtr_tf.evaluation.baselines import BM25
from xtr_tf.evaluation.metrics import cutoff, judge_by_answers, measure, metrics_for
from xtr_tf.evaluation.results import (
    DatasetResult,
    ModelResult,
    Values,
    count_caveats,
    file_name,
    read_values,
)
from xtr_tf.evaluation.run import Run
from xtr_tf.lexical.terms import ANALYSERS, analyser_for
from xtr_tf.progress import tracked

# Recall at 1,000 says nothing if a thousand documents are a large part of the corpus.
_DEEP_FROM_DOCUMENTS = 20_000


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Settings of `xtr-tf evaluate`.

    Attributes:
        k_prime: Document tokens that each query token retrieves.
        token_weights: Weights of query tokens, `none` or `idf`; if empty, the default of an exported model,
            and `none` for an encoder.
        length_penalty: How much less the tokens of long documents count, as in `EncodingConfig`. This and the
            next are for an encoder; an exported model under test has those of its index, and so has an
            exported baseline.
        repetition_bonus: How much more pieces count that a document repeats.
        depth: Documents to rank per query; 0 for 1,000 in a corpus of 20,000 documents or more, and 100 in a
            smaller one.
        max_queries: Queries to sample per dataset; 0 for all.
        bm25: Whether to run the BM25 baselines.
        fusion: Whether to evaluate XTR and BM25 over n-grams combined in one score. An exported model must
            have BM25; one that combines them by default is always evaluated so, too.
        alpha: Weight of BM25 in the combined score, unless an exported model has its own.
        analysis_queries: Queries per dataset whose tokens are analysed; 0 for none.
        exact_queries: Queries per dataset that are also searched exactly if the model has an approximate
            index; 0 for none.
        examples: Worked examples per dataset.
        seed: Seed of samples and resampling.
    """

    k_prime: int = 1_000
    token_weights: str = ""
    length_penalty: float = 0.0
    repetition_bonus: float = 0.0
    depth: int = 0
    max_queries: int = 0
    bm25: bool = True
    fusion: bool = False
    alpha: float = 0.5
    analysis_queries: int = 100
    exact_queries: int = 100
    examples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.k_prime >= 1, "`k_prime` must be at least 1.", self.k_prime)
        require(
            self.token_weights in ("", *TOKEN_WEIGHTS),
            f"`token_weights` must be one of {', '.join(TOKEN_WEIGHTS)}.",
            self.token_weights,
        )
        _ = self.encoding  # which checks its settings
        require(self.depth == 0 or self.depth >= 10, "`depth` must be at least 10, or 0.", self.depth)
        for name in ("max_queries", "analysis_queries", "exact_queries", "examples", "seed"):
            require(getattr(self, name) >= 0, f"`{name}` must not be negative.", getattr(self, name))
        require(0 < self.alpha <= 1, "`alpha` must be above 0 (XTR) and at most 1 (BM25).", self.alpha)

    @property
    def encoding(self) -> EncodingConfig:
        """How an encoder under test encodes documents."""
        return EncodingConfig(length_penalty=self.length_penalty, repetition_bonus=self.repetition_bonus)

    def depth_for(self, documents: int, by_answers: bool) -> int:
        """Returns how deep to search a corpus of this many documents.

        Args:
            documents: Number of documents in the corpus.
            by_answers: Whether it is judged by answer strings.

        Returns:
            `depth` if it is set, else 1,000 for a large judged corpus and 100 for others.
        """
        if self.depth:
            return self.depth
        return 1_000 if documents >= _DEEP_FROM_DOCUMENTS and not by_answers else 100


#: The system of a BM25 analyser.
BM25_SYSTEMS: Mapping[str, str] = {"words": "bm25_words", "character n-grams": "bm25_ngrams"}


#: The model and its baseline on the documents that both have.
SHARED: Mapping[str, str] = {"xtr": "xtr_shared", "baseline": "baseline_shared"}


#: The kind of an encoder that is searched without an index.
ENCODER_KIND = "encoder, searched exactly"


class Model(Protocol):
    """A model under test."""

    name: str
    kind: str

    def evaluate(
        self, dataset: Dataset, documents: Sequence[Document], depth: int, settings: EvaluationSettings
    ) -> ModelResult:
        """Runs the model on a dataset.

        Args:
            dataset: Queries and judgements.
            documents: Its corpus, in order.
            depth: Documents to rank per query.
            settings: Settings of the evaluation.

        Returns:
            The runs by system, and the analyses.
        """


class Evaluator:
    """Measures a model and its baselines on datasets.

    Systems have keys: `xtr` and `colbert` are the model's, `bm25_words` and `bm25_ngrams` the BM25
    baselines', `bm25` is the one of the two that suits each query's language, `fusion` is XTR and BM25
    in one score, and `baseline` is another model, or an earlier report of one.

    Args:
        model: The model.
        settings: Settings of the evaluation.
        baseline: A model to compare with.
        baseline_report: The folder of an earlier report to compare with, instead of `baseline`.
        baseline_documents: Ids of the baseline's documents, if its corpus is another one. The two are then
            compared on the documents that both have.
        out: Folder for runs and per-query values.
        progress: Called with a line about each finished step.
    """

    def __init__(
        self,
        model: Model,
        settings: EvaluationSettings,
        out: Path,
        baseline: Model | None = None,
        baseline_report: Path | None = None,
        progress: Callable[[str], None] = lambda _: None,
        baseline_documents: Container[str] | None = None,
    ) -> None:
        self._baseline_documents = baseline_documents
        self._model = model
        self._settings = settings
        self._out = out
        self._baseline = baseline
        self._baseline_report = baseline_report
        self._progress = progress

    def check(self, dataset: Dataset) -> None:
        """Raises `InputError` if the dataset cannot be measured; called for all before the first begins."""
        settings = self._settings
        needed = cutoff(dataset.metric)
        if settings.depth and settings.depth < needed:
            raise InputError(
                f"{dataset.metric} of {dataset.name} needs a depth of at least {needed}. "
                f"Received: depth {settings.depth}."
            )
        self._earlier_values(dataset.sample(settings.max_queries, settings.seed))

    def evaluate(self, dataset: Dataset) -> DatasetResult:
        """Measures every system on a dataset, and writes runs and values."""
        settings = self._settings
        all_queries = len(dataset.queries)
        dataset = dataset.sample(settings.max_queries, settings.seed)
        documents = list(dataset.corpus)
        depth = settings.depth_for(len(documents), dataset.is_judged_by_answers)
        # One more if a query's own document will be removed.
        searched_depth = depth + dataset.ignores_own_document
        self._progress(f"{dataset.name}: {len(documents):,} documents, {len(dataset.queries):,} queries")
        result = self._model.evaluate(dataset, documents, searched_depth, settings)
        runs = dict(result.runs)
        if self._baseline:
            plain = dataclasses.replace(settings, analysis_queries=0, exact_queries=0, fusion=False)
            other = self._baseline.evaluate(dataset, documents, searched_depth, plain)
            runs["baseline"] = other.runs[other.served]
        runs |= self._run_bm25(dataset, documents, searched_depth)
        if dataset.ignores_own_document:
            source_of = {query.id: query.id for query in dataset.queries}
            runs = {system: run.without(source_of) for system, run in runs.items()}
        values = self._measure(dataset, runs, depth)
        shared = self._shared_documents(documents)
        if shared is not None:
            compared = {"xtr": runs[result.served], "baseline": runs["baseline"]}
            values |= _measure_on(shared, dataset, compared, depth)
        caveats = count_caveats(dataset, all_queries, (document.id for document in documents), runs)
        number = None if shared is None else len(shared)
        measured = DatasetResult(dataset, len(documents), depth, values, caveats, result, number)
        self._write(measured, runs)
        self._report(measured)
        return measured

    def _shared_documents(self, documents: Sequence[Document]) -> set[str] | None:
        if self._baseline is None or self._baseline_documents is None:
            return None
        return {document.id for document in documents if document.id in self._baseline_documents}

    def _run_bm25(self, dataset: Dataset, documents: Sequence[Document], depth: int) -> dict[str, Run]:
        if not self._settings.bm25:
            return {}
        runs = {}
        for analyser in tracked(ANALYSERS, "BM25", len(ANALYSERS), "analysers"):
            runs[BM25_SYSTEMS[analyser]] = BM25(documents, analyser).search(dataset.queries, depth)
        return runs

    def _measure(self, dataset: Dataset, runs: Mapping[str, Run], depth: int) -> dict[str, Values]:
        by_answers = dataset.is_judged_by_answers
        judgements = judge_by_answers(dataset, list(runs.values())) if by_answers else dataset.judgements
        metrics = metrics_for(by_answers, depth)
        ids = [query.id for query in dataset.queries]
        values: dict[str, Values] = {
            system: measure(run, judgements, ids, metrics) for system, run in runs.items()
        }
        if self._settings.bm25:
            is_words = np.array([analyser_for(query.language) == "words" for query in dataset.queries])
            values["bm25"] = {
                metric: np.where(is_words, values["bm25_words"][metric], values["bm25_ngrams"][metric])
                for metric in metrics
            }
        return values | self._earlier_values(dataset)

    def _earlier_values(self, dataset: Dataset) -> dict[str, Values]:
        if not self._baseline_report:
            return {}
        path = self._baseline_report / "queries" / f"{file_name(dataset.name)}.json"
        return {"baseline": read_values(path, [query.id for query in dataset.queries])}

    def _write(self, result: DatasetResult, runs: Mapping[str, Run]) -> None:
        name = file_name(result.dataset.name)
        folder = self._out / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        for system, run in runs.items():
            run.write(folder / f"{name}.{system}.trec.gz")
        result.write_queries(self._out / "queries" / f"{name}.json")

    def _report(self, result: DatasetResult) -> None:
        metric = result.dataset.metric
        figures = ", ".join(
            f"{system} {100 * values[metric].mean():.1f}"
            for system, values in result.values.items()
            if metric in values
        )
        seconds = ", ".join(f"{stage} {spent:.0f} s" for stage, spent in result.model.seconds.items())
        self._progress(f"{result.dataset.name}: {metric} {figures} ({seconds})")


def _measure_on(shared: set[str], dataset: Dataset, runs: Mapping[str, Run], depth: int) -> dict[str, Values]:
    """The model and its baseline as if both had only these documents."""
    judgements = {
        query: {document: grade for document, grade in grades.items() if document in shared}
        for query, grades in dataset.judgements.items()
    }
    ids = [query.id for query in dataset.queries]
    metrics = metrics_for(by_answers=False, depth=depth)
    return {SHARED[system]: measure(runs[system].only(shared), judgements, ids, metrics) for system in SHARED}
