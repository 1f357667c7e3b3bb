"""A document as it is read from a corpus, and as it is stored next to its vectors. No TensorFlow.

Defines the fields of a document for all formats and readers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN_LANGUAGE = "und"

ID_FIELDS = ("_id", "id", "docid")
TEXT_FIELDS = ("text", "contents")
TITLE_FIELDS = ("title",)
LANGUAGE_FIELDS = ("language", "lang")


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        id: Unique in its corpus; may be empty in training pairs.
        text: The body; empty if the document was read from a directory that keeps no texts.
        title: The title; may be empty.
        language: BCP 47 code; `und` if unknown.
        fields: Values of declared fields (`fields.py`), by name.
    """

    id: str
    text: str
    title: str = ""
    language: str = UNKNOWN_LANGUAGE
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], language: str = UNKNOWN_LANGUAGE) -> Document:
        """Makes a document from a record of any format.

        Args:
            fields: `_id` (or `id`, `docid`), `text` (or `contents`), `title` and `language` (or
                `lang`). Other fields are ignored. A text or a title is required.
            language: Language if the record does not name one.

        Returns:
            The document.

        Raises:
            ValueError: The record is not a document. The message says why in a few words.
        """
        text, title = text_field(fields, TEXT_FIELDS), text_field(fields, TITLE_FIELDS)
        named = text_field(fields, LANGUAGE_FIELDS)
        document = cls(id_field(fields), text, title, named or language)
        if not text.strip() and not title.strip():
            raise ValueError("empty")
        return document

    @property
    def full_text(self) -> str:
        """The text to encode, which character spans refer to: `"{title} {text}"`, or only the text."""
        return _full_text(self.title, self.text)

    @property
    def content_hash(self) -> str:
        """A hash that two documents share exactly if they are encoded from the same string."""
        return hashlib.blake2b(self.full_text.encode(), digest_size=16).hexdigest()


def id_field(fields: Mapping[str, Any]) -> str:
    """Returns the id of a record, which may be an integer; empty if it has none."""
    value = first_value(fields, ID_FIELDS)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text_field(fields, ID_FIELDS)


def text_field(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    """Returns the text of the first of several fields that a record has.

    Args:
        fields: The fields of a record.
        names: Names to look for, in order of preference.

    Returns:
        The text, or "" if the record has none of the fields.

    Raises:
        ValueError: The field is not a text.
    """
    value = first_value(fields, names)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("a field is not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell
        raise ValueError("invalid UTF-8") from error
    return value


def first_value(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the first of several fields that a record has and that is not null.

    Args:
        fields: The fields of a record.
        names: Names to look for, in order of preference.

    Returns:
        The value, or None if there is none.

    Example:
        >>> first_value({"id": None, "docid": "d1"}, ("_id", "id", "docid"))
        'd1'
    """
    return next((fields[name] for name in names if fields.get(name) is not None), None)


@dataclasses.dataclass(frozen=True)
class DocumentRecord:
    """A document as a directory of token vectors stores it: one line of `documents.jsonl`.

    Attributes:
        id: As in the corpus.
        title: As in the corpus.
        language: As in the corpus.
        content_hash: Hash of the encoded text.
        text: The body for display; None if texts are not kept.
        fields: Values of declared fields, by name.
    """

    id: str
    title: str
    language: str
    content_hash: str
    text: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, document: Document) -> DocumentRecord:
        """Makes the record of `document`."""
        return cls(
            document.id,
            document.title,
            document.language,
            document.content_hash,
            document.text,
            document.fields,
        )

    @property
    def full_text(self) -> str:
        """The encoded text. Only available if texts are kept."""
        assert self.text is not None, "this directory keeps no texts"
        return _full_text(self.title, self.text)

    def to_json(self) -> str:
        """Returns the record as one line of JSON, without a newline."""
        fields = {key: value for key, value in dataclasses.asdict(self).items() if value not in (None, {})}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> DocumentRecord:
        """The inverse of `to_json`."""
        return cls(**json.loads(line))


def _full_text(title: str, text: str) -> str:
    return f"{title} {text}" if title else text
