"""A document as the data gives it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Document(NamedTuple):
    """A passage.

    Attributes:
        id: Name within its data set; empty if the data gives none.
        title: Title, possibly empty.
        text: The passage itself.
        teacher_score: A teacher's score for the query it was listed with; NaN if none.
    """

    id: str
    title: str
    text: str
    teacher_score: float = math.nan

    @property
    def content(self) -> str:
        """What is encoded: the title before the text, if there is one."""
        return f"{self.title} {self.text}" if self.title else self.text

    @classmethod
    def from_json(cls, value: Any) -> Document:
        """Reads a plain text, or an object with `text` and optional `id` or `_id`, `title`, `score`.

        Raises:
            ValueError: It is neither; the message says why.
        """
        if isinstance(value, str):
            value = {"text": value}
        if not isinstance(value, dict):
            raise ValueError("a document is neither a text nor an object")
        identity = first_value(value, "id", "_id", "docid")
        title, text = value.get("title") or "", value.get("text")
        if not isinstance(text, str) or not isinstance(title, str):
            raise ValueError("a document has no `text`, or a `title` that is not text")
        if not text.strip() and not title.strip():
            raise ValueError("a document is empty")
        require_utf8("a document", identity, title, text)
        score = value.get("score")
        if score is not None and not isinstance(score, int | float):
            raise ValueError("a document's `score` is not a number")
        return cls(identity, title, text, math.nan if score is None else float(score))


def first_value(record: dict[str, Any], *names: str) -> str:
    """Returns the first field that is there and not null, as text; empty if there is none."""
    return str(next((record[name] for name in names if record.get(name) is not None), ""))


def require_utf8(what: str, *texts: str) -> None:
    """Raises `ValueError` if a text cannot be encoded: JSON can spell halves of characters."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not UTF-8") from error
