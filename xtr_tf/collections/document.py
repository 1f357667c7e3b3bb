"""A document of a corpus, as it is read and as it is kept beside its vectors. No TensorFlow."""

from __future__ import annotations

import dataclasses
import hashlib
import json

UNKNOWN_LANGUAGE = "und"


@dataclasses.dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        id: Unique in its corpus.
        text: The body. Empty in a document read back from a directory that keeps no texts.
        title: May be empty.
        language: BCP 47 code; `und` if not known.
    """

    id: str
    text: str
    title: str = ""
    language: str = UNKNOWN_LANGUAGE

    @property
    def full_text(self) -> str:
        """What is encoded, and what character spans count in: `"{title} {text}"`, or the text alone."""
        return _full_text(self.title, self.text)

    @property
    def content_hash(self) -> str:
        """Equal for two documents exactly when they are encoded from the same string."""
        return hashlib.blake2b(self.full_text.encode(), digest_size=16).hexdigest()


@dataclasses.dataclass(frozen=True)
class DocumentRecord:
    """What a directory of token vectors keeps of a document; one line of `documents.jsonl`.

    Attributes:
        id: As in the corpus.
        title: As in the corpus.
        language: As in the corpus.
        content_hash: Of the text that was encoded.
        text: The body for display, or None where texts are not kept.
    """

    id: str
    title: str
    language: str
    content_hash: str
    text: str | None = None

    @classmethod
    def of(cls, document: Document) -> DocumentRecord:
        """The record of `document`."""
        return cls(document.id, document.title, document.language, document.content_hash, document.text)

    @property
    def full_text(self) -> str:
        """What was encoded; texts must have been kept."""
        assert self.text is not None, "this directory keeps no texts"
        return _full_text(self.title, self.text)

    def to_json(self) -> str:
        """One line, without its end."""
        fields = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> DocumentRecord:
        """The inverse of `to_json`."""
        return cls(**json.loads(line))


def _full_text(title: str, text: str) -> str:
    return f"{title} {text}" if title else text
