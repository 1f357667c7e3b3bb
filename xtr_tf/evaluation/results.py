"""The measurements on one dataset: the model's runs, the values of every query, and the caveats.

Also the file with the values of every query. Knows nothing about averages or reports.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.errors import InputError
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.token_analysis import TokenAnalysis
from xtr_tf.evaluation.worked_examples import WorkedExample
from xtr_tf.files import write_atomically


@dataclasses.dataclass(frozen=True)
class ExactCheck:
    """An approximate index compared with the exact search of the same model, on a sample of queries.

    Attributes:
        queries: Number of queries.
        metrics: By search (`index`, `exact_xtr`, `exact_colbert`), then by metric.
        overlap_at_10: Share of the exact search's first ten that the index found among its first ten.
        cut_documents: Documents that may have been cut when they were encoded for the exact search.
        note: Why there is no figure, if there is none.
    """

    queries: int = 0
    metrics: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    overlap_at_10: float = 0.0
    cut_documents: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """Runs and analyses of a model.

    Attributes:
        runs: By system: `xtr`; `colbert` if the model can be searched exactly; `fusion` if it was asked for
            or is the model's default.
        tokens: Document tokens in the index; 0 if unknown.
        seconds: Time by stage.
        analysis: Analysis of token retrieval, if there is one.
        examples: Worked examples.
        exact_check: Comparison with exact search, for an approximate index.
        served: The system that answers requests without parameters.
    """

    runs: Mapping[str, Run]
    tokens: int = 0
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    analysis: TokenAnalysis | None = None
    examples: Sequence[WorkedExample] = ()
    exact_check: ExactCheck | None = None
    served: str = "xtr"


@dataclasses.dataclass(frozen=True)
class DataCaveats:
    """Counts of what limits the figures of one dataset.

    Attributes:
        queries_not_sampled: Judged queries that are not in the sample.
        queries_without_judgements: Queries without judgements, which are left out.
        judged_queries_without_text: Judged queries that are not in the files, which are left out.
        queries_without_relevant_documents: Measured queries without a relevant document.
        records_left_out: Records of the corpus that are not documents (empty, damaged, repeated), by reason.
        relevant_documents_missing: Relevant documents that are not in the corpus.
        empty_results: Queries that found nothing, by system.
        documents_not_in_corpus: Documents found that the dataset's corpus does not have, by system.
    """

    queries_not_sampled: int
    queries_without_judgements: int
    judged_queries_without_text: int
    queries_without_relevant_documents: int
    records_left_out: Mapping[str, int]
    relevant_documents_missing: int
    empty_results: Mapping[str, int]
    documents_not_in_corpus: Mapping[str, int]


#: `[queries]` values by metric.
Values = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class DatasetResult:
    """Values of every system on every query.

    Attributes:
        dataset: The dataset.
        documents: Documents of its corpus.
        depth: Documents ranked per query.
        values: By system, then by metric.
        caveats: What was missing or empty.
        model: Runs and analyses of the model under test.
        shared_documents: Number of documents that the baseline has, too, if its corpus is another one.
    """

    dataset: Dataset
    documents: int
    depth: int
    values: Mapping[str, Values]
    caveats: DataCaveats
    model: ModelResult
    shared_documents: int | None = None

    @property
    def languages(self) -> list[str]:
        """`[queries]`."""
        return [query.language for query in self.dataset.queries]

    @property
    def groups(self) -> list[str]:
        """`[queries]`."""
        return [query.group for query in self.dataset.queries]

    def write_queries(self, path: Path) -> None:
        """Writes the values of every query as JSON."""
        content = {
            "dataset": self.dataset.name,
            "queries": [query.id for query in self.dataset.queries],
            "languages": self.languages,
            "groups": self.groups,
            "values": {
                # Not rounded: errors of the same sign would be a significant difference.
                system: {metric: of_queries.tolist() for metric, of_queries in values.items()}
                for system, values in self.values.items()
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, ensure_ascii=False).encode())


def file_name(dataset: str) -> str:
    """A dataset's name, as the first part of a file name."""
    return dataset.replace("/", "--")


def read_values(path: Path, queries: Sequence[str], system: str = "xtr") -> Values:
    """Reads one system's values of some queries from a file of `write_queries`.

    Args:
        path: The file.
        queries: Query ids, in the order of the values to return.
        system: The system's key in the report.

    Returns:
        `[queries]` float64 by metric.

    Raises:
        InputError: There is no such file, or it lacks a query.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            "The earlier report has no values of a dataset; evaluate the baseline on the same datasets. "
            f"Received: {str(path)!r}."
        ) from error
    row_of = {query: row for row, query in enumerate(content["queries"])}
    missing = [query for query in queries if query not in row_of]
    if missing:
        raise InputError(
            "The earlier report lacks queries of a dataset; give both evaluations the same number of queries "
            f"and seed. Received: {str(path)!r} without {missing[0]!r} and {len(missing) - 1} others."
        )
    rows = [row_of[query] for query in queries]
    return {metric: np.array(values)[rows] for metric, values in content["values"][system].items()}


def count_caveats(
    dataset: Dataset, all_queries: int, document_ids: Iterable[str], runs: Mapping[str, Run]
) -> DataCaveats:
    """Counts what limits the figures of a dataset.

    Args:
        dataset: The dataset as it was measured.
        all_queries: Number of queries before sampling.
        document_ids: Ids of the documents in the corpus.
        runs: By system.

    Returns:
        The counts.
    """
    known = set(document_ids)
    measured = {query.id for query in dataset.queries}
    relevant = {
        query: {document for document, grade in grades.items() if grade > 0}
        for query, grades in dataset.judgements.items()
        if query in measured
    }
    results = {
        system: {document for query in dataset.queries for document in run.documents(query.id)}
        for system, run in runs.items()
    }
    return DataCaveats(
        queries_not_sampled=all_queries - len(dataset.queries),
        queries_without_judgements=dataset.unjudged_queries,
        judged_queries_without_text=len(dataset.unknown_queries),
        queries_without_relevant_documents=sum(not documents & known for documents in relevant.values()),
        records_left_out=dict(getattr(dataset.corpus, "skipped", {})),
        relevant_documents_missing=len(set().union(*relevant.values()) - known),
        empty_results={
            system: sum(query.id not in run for query in dataset.queries) for system, run in runs.items()
        },
        documents_not_in_corpus={system: len(documents - known) for system, documents in results.items()},
    )
