"""A document of a corpus, as it is read and as it is kept next to its vectors. No TensorFlow.

Which fields of a record make a document is said here once, for every format and every reader.
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
        id: Unique in its corpus; empty if the data gives none, as training pairs need not.
        text: The body. Empty in a document read back from a directory that keeps no texts.
        title: May be empty.
        language: BCP 47 code; `und` if not known.
        fields: Values of the fields that its corpus declares (`fields.py`), by name.
    """

    id: str
    text: str
    title: str = ""
    language: str = UNKNOWN_LANGUAGE
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], language: str = UNKNOWN_LANGUAGE) -> Document:
        """The document of a record, whatever format it stood in.

        Args:
            fields: `_id` (or `id`, `docid`), `text` (or `contents`), `title` and `language` (or
                `lang`); others are ignored. A text or a title is needed.
            language: Of a document that does not name one.

        Returns:
            The document.

        Raises:
            ValueError: The record is not a document; the message says why in a few words.
        """
        text, title = text_field(fields, TEXT_FIELDS), text_field(fields, TITLE_FIELDS)
        named = text_field(fields, LANGUAGE_FIELDS)
        document = cls(id_field(fields), text, title, named or language)
        if not text.strip() and not title.strip():
            raise ValueError("empty")
        return document

    @property
    def full_text(self) -> str:
        """What is encoded, and what character spans count in: `"{title} {text}"`, or only the text."""
        return _full_text(self.title, self.text)

    @property
    def content_hash(self) -> str:
        """Equal for two documents exactly when they are encoded from the same string."""
        return hashlib.blake2b(self.full_text.encode(), digest_size=16).hexdigest()


def id_field(fields: Mapping[str, Any]) -> str:
    """The id of a record, which may be an integer; empty if it has none."""
    value = first_value(fields, ID_FIELDS)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text_field(fields, ID_FIELDS)


def text_field(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of some fields that is there; empty if none is, `ValueError` if it is not a text.

    Args:
        fields: Of a record.
        names: In the order of preference.

    Returns:
        The text, or "".

    Raises:
        ValueError: The field is there and not a text.
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
    """The first of some fields that is there and not null, or None.

    Args:
        fields: Of a record.
        names: In the order of preference.

    Returns:
        The value, or None.

    Example:
        >>> first_value({"id": None, "docid": "d1"}, ("_id", "id", "docid"))
        'd1'
    """
    return next((fields[name] for name in names if fields.get(name) is not None), None)


@dataclasses.dataclass(frozen=True)
class DocumentRecord:
    """What a directory of token vectors keeps of a document; one line of `documents.jsonl`.

    Attributes:
        id: As in the corpus.
        title: As in the corpus.
        language: As in the corpus.
        content_hash: Of the text that was encoded.
        text: The body for display, or None where texts are not kept.
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
        """The record of `document`."""
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
        """What was encoded; texts must have been kept."""
        assert self.text is not None, "this directory keeps no texts"
        return _full_text(self.title, self.text)

    def to_json(self) -> str:
        """One line, without its end."""
        fields = {key: value for key, value in dataclasses.asdict(self).items() if value not in (None, {})}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> DocumentRecord:
        """The inverse of `to_json`."""
        return cls(**json.loads(line))


def _full_text(title: str, text: str) -> str:
    return f"{title} {text}" if title else text
