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
        identity = value.get("id", value.get("_id", value.get("docid", "")))
        title, text = value.get("title") or "", value.get("text")
        if not isinstance(text, str) or not isinstance(title, str):
            raise ValueError("a document has no `text`, or a `title` that is not text")
        if not text.strip() and not title.strip():
            raise ValueError("a document is empty")
        score = value.get("score")
        if score is not None and not isinstance(score, int | float):
            raise ValueError("a document's `score` is not a number")
        return cls(str(identity), title, text, math.nan if score is None else float(score))
