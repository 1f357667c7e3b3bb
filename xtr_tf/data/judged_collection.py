"""Queries, documents and judgements, from whatever layout of files; and examples made of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from xtr_tf.data.bad_records import BadRecords
from xtr_tf.data.document import Document
from xtr_tf.data.training_example import TrainingExample


@dataclasses.dataclass(frozen=True)
class JudgedCollection:
    """A test collection.

    Attributes:
        name: Tells collections apart.
        queries: Text of each query by id.
        languages: Language of each query by id.
        documents: Documents by id.
        judgements: Grade of each judged document, by query id and document id; 0 or less means
            that it does not answer the query.
    """

    name: str
    queries: dict[str, str]
    languages: dict[str, str]
    documents: dict[str, Document]
    judgements: dict[str, dict[str, int]]

    def examples(self, bad_records: BadRecords) -> JudgedSource:
        """Training examples, one for each query with a positive."""
        return JudgedSource(self, bad_records)


class JudgedSource:
    """Training examples by number from a collection: graded documents are positives, the others negatives.

    Args:
        collection: The collection, whose documents include all judged ones.
        bad_records: Told of judgements whose query or document is not there.
    """

    def __init__(self, collection: JudgedCollection, bad_records: BadRecords) -> None:
        self.name = collection.name
        self._collection = collection
        self._examples: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        for number, (query_id, grades) in enumerate(collection.judgements.items(), start=1):
            if query_id not in collection.queries:
                bad_records.skip(collection.name, number, f"query {query_id!r} is judged, but absent")
                continue
            missing = [document_id for document_id in grades if document_id not in collection.documents]
            for document_id in missing:
                bad_records.skip(
                    collection.name, number, f"document {document_id!r} of query {query_id!r} is absent"
                )
            known = {key: grade for key, grade in grades.items() if key not in missing}
            positives = tuple(key for key, grade in known.items() if grade > 0)
            negatives = tuple(key for key, grade in known.items() if grade <= 0)
            if positives:
                self._examples.append((query_id, positives, negatives))
        self.languages = np.array([collection.languages[example[0]] for example in self._examples], dtype=str)
        self.max_positives = max((len(positives) for _, positives, _ in self._examples), default=1)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> TrainingExample:
        query_id, positives, negatives = self._examples[index]
        documents = self._collection.documents
        return TrainingExample(
            id=query_id,
            query=self._collection.queries[query_id],
            positives=tuple(documents[key] for key in positives),
            negatives=tuple(documents[key] for key in negatives),
            language=self._collection.languages[query_id],
        )
