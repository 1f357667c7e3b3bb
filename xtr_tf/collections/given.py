"""Documents given as Python objects: strings, mappings, `Document`s, or the rows of a data frame.

Readers of files skip and count invalid records. Invalid objects raise an error instead, because the caller
can fix them. Knows nothing about files.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from xtr_tf.collections.corpus import Corpus, CorpusReader
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.collections.fields import Fields, check_fields, read_fields
from xtr_tf.errors import InputError

#: What can be indexed: the path of a corpus, or documents as strings, mappings, `Document`s or a data frame.
Documents = str | Path | Iterable[str | Mapping[str, Any] | Document] | Any


def open_documents(
    documents: Documents,
    language: str = UNKNOWN_LANGUAGE,
    new_id: Callable[[], str] | None = None,
    fields: Fields | None = None,
) -> Corpus:
    """Makes a corpus from any of the accepted kinds of documents.

    Args:
        documents: The path of a corpus that `CorpusReader` can read; or an iterable of strings, mappings with
            the fields of `Document.from_fields`, or `Document`s; or a pandas or polars data frame.
        language: Language of documents that do not name one.
        new_id: Returns an id for a document without one; by default its position.
        fields: Names and types of additional document fields.

    Returns:
        A corpus that can be read once.

    Raises:
        InputError: `documents` is none of these. Errors in single documents are raised when they are read.
    """
    if isinstance(documents, str | Path):
        if isinstance(documents, str) and not Path(documents).exists():
            raise InputError(
                "A single string is the path of a corpus; give texts as a list. "
                f"Received: {documents!r:.60}, which does not exist."
            )
        return CorpusReader(documents, language, fields=fields)
    if isinstance(documents, Mapping | Document | bytes):
        raise InputError(
            f"Give documents as a list, even a single one. Received: {type(documents).__name__}."
        )
    return GivenDocuments(_rows(documents), language, new_id, fields)


class GivenDocuments:
    """A corpus of the documents in an iterable, which is read once.

    Args:
        values: Strings, mappings or `Document`s.
        language: Language of documents that do not name one.
        new_id: Returns an id for a document without one; by default its position.
        fields: Names and types of additional document fields.

    Attributes:
        skipped: Always empty, because nothing is skipped.
        first_skipped: Always empty.

    Raises:
        InputError: While iterating, if a value is not a document or has no text, an id is used twice, the
            iterable fails, or it is empty.

    Example:
        >>> [document.id for document in GivenDocuments(["The Nile.", {"id": "k2", "text": "A mountain."}])]
        ['0', 'k2']
    """

    def __init__(
        self,
        values: Iterable[Any],
        language: str = UNKNOWN_LANGUAGE,
        new_id: Callable[[], str] | None = None,
        fields: Fields | None = None,
    ) -> None:
        check_fields(fields or {})
        self.skipped: dict[str, int] = {}
        self.first_skipped: dict[str, str] = {}
        self._values = values
        self._language = language
        self._new_id = new_id
        self._fields = dict(fields or {})

    def __iter__(self) -> Iterator[Document]:
        seen: set[str] = set()
        position = 0
        for position, value in enumerate(_guarded(self._values), start=1):
            document = self._document(value, position - 1, seen)
            if document.id in seen:
                raise InputError(
                    "Document ids must be unique; remove duplicates. "
                    f"Received: {document.id!r} more than once."
                )
            seen.add(document.id)
            yield document
        if not position:
            raise InputError("There must be at least one document. Received: 0 documents.")

    def _document(self, value: Any, position: int, seen: set[str]) -> Document:
        if isinstance(value, Document):
            value = {**value.fields, **vars(value)}
        fields = {"text": value} if isinstance(value, str) else value
        if not isinstance(fields, Mapping):
            raise InputError(
                "A document is a string, a mapping with a `text`, or a Document. "
                f"Received: {type(value).__name__} at position {position}."
            )
        try:
            document = Document.from_fields(fields, self._language)
        except ValueError as error:
            reason = "it has no text" if str(error) == "empty" else str(error)
            raise InputError(
                f"A document cannot be used ({reason}); give it a `text`, or leave it out. "
                f"Received: {value!r:.60} at position {position}."
            ) from None
        if self._fields:
            try:
                document = dataclasses.replace(document, fields=read_fields(fields, self._fields))
            except InputError as error:
                raise InputError(f"The document at position {position}: {error}") from None
        if document.id:
            return document
        identifier = self._new_id() if self._new_id else str(position)
        return dataclasses.replace(document, id=identifier)


def _rows(documents: Any) -> Iterable[Any]:
    """Returns the rows of a data frame as mappings, or `documents` itself if it is another iterable."""
    if hasattr(documents, "iter_rows"):  # polars
        return documents.iter_rows(named=True)
    if hasattr(documents, "itertuples") and hasattr(documents, "columns"):  # pandas
        names = [str(name) for name in documents.columns]
        return (
            {name: value for name, value in zip(names, row, strict=True) if not _is_missing(value)}
            for row in documents.itertuples(index=False, name=None)
        )
    if not isinstance(documents, Iterable):
        raise InputError(
            "Documents are a list of strings or mappings, a data frame, or the path of a corpus. "
            f"Received: {type(documents).__name__}."
        )
    return documents


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _guarded(values: Iterable[Any]) -> Iterator[Any]:
    """Yields the values, and turns an exception of the iterable into an `InputError`."""
    count = 0
    try:
        for value in values:
            count += 1
            yield value
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The iterable of documents failed after {count:,} documents, and nothing was changed; fix it. "
            f"Received: {type(error).__name__}: {error}."
        ) from error
