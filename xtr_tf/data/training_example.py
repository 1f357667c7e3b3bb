"""A query with the documents that answer it and those that do not, from whatever format."""

from __future__ import annotations

from typing import Any, NamedTuple

from xtr_tf.data.document import Document, first_value, require_utf8


class TrainingExample(NamedTuple):
    """One query to learn from.

    Attributes:
        id: Name within its data set; empty if the data gives none.
        query: Text of the query.
        positives: Documents that answer it, at least one.
        negatives: Documents that do not although they look so.
        language: Language code, such as `en`.
    """

    id: str
    query: str
    positives: tuple[Document, ...]
    negatives: tuple[Document, ...] = ()
    language: str = "und"

    @classmethod
    def from_json(cls, record: Any, language: str) -> TrainingExample:
        """Reads a pair or triple from a JSON object.

        The full form has `query`, `positives` and `negatives` (lists of documents, see
        `Document.from_json`), `id` and `language`. Short forms are `positive` and `negative`
        for one document each, and `title` and `text` at the top for a single positive.

        Args:
            record: The decoded object.
            language: Used where the record names none.

        Raises:
            ValueError: The record does not have this form; the message says why.
        """
        if not isinstance(record, dict):
            raise ValueError("the record is not an object")
        query = record.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("the record has no `query`")
        positives = _documents(record, "positives", "positive")
        if not positives and "text" in record:
            positives = (Document.from_json({"title": record.get("title"), "text": record["text"]}),)
        if not positives:
            raise ValueError("the record has neither `positives` nor `positive` nor `text`")
        example = cls(
            id=first_value(record, "id", "_id"),
            query=query,
            positives=positives,
            negatives=_documents(record, "negatives", "negative"),
            language=str(record.get("language") or language),
        )
        require_utf8("the record", example.id, query, example.language)
        return example


def _documents(record: dict[str, Any], plural: str, singular: str) -> tuple[Document, ...]:
    values = record.get(plural)
    if values is None:
        values = [record[singular]] if record.get(singular) is not None else []
    if not isinstance(values, list):
        raise ValueError(f"`{plural}` is not a list")
    return tuple(Document.from_json(value) for value in values)
