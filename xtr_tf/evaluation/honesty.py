"""What a figure does not say by itself: what was missing, left out, empty or never judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.run import Run


@dataclasses.dataclass(frozen=True)
class Honesty:
    """Counts of one dataset.

    Attributes:
        queries_not_sampled: Judged queries left out because a sample was asked for.
        queries_without_judgements: Queries of the files that nothing is known about, left out.
        judged_queries_without_text: Judgements whose query is not in the files, left out.
        queries_without_relevant_documents: Measured queries that no system can score on.
        records_left_out: Records of the corpus that are no documents (empty, damaged, repeated), by reason.
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


def count_honestly(
    dataset: Dataset, all_queries: int, document_ids: Iterable[str], runs: Mapping[str, Run]
) -> Honesty:
    """Counts what the figures of a dataset do not say.

    Args:
        dataset: As it was measured.
        all_queries: Queries before any sample was taken.
        document_ids: Of the corpus.
        runs: By system.
    """
    known = set(document_ids)
    measured = {query.id for query in dataset.queries}
    relevant = {
        query: {document for document, grade in grades.items() if grade > 0}
        for query, grades in dataset.judgements.items()
        if query in measured
    }
    found = {
        system: {document for query in dataset.queries for document in run.documents(query.id)}
        for system, run in runs.items()
    }
    return Honesty(
        queries_not_sampled=all_queries - len(dataset.queries),
        queries_without_judgements=dataset.unjudged_queries,
        judged_queries_without_text=dataset.unknown_queries,
        queries_without_relevant_documents=sum(not documents & known for documents in relevant.values()),
        records_left_out=dict(getattr(dataset.corpus, "skipped", {})),
        relevant_documents_missing=len(set().union(*relevant.values()) - known),
        empty_results={
            system: sum(query.id not in run for query in dataset.queries) for system, run in runs.items()
        },
        documents_not_in_corpus={system: len(documents - known) for system, documents in found.items()},
    )
