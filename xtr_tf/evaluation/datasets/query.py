"""One question of a test collection."""

from __future__ import annotations

import dataclasses

from xtr_tf.corpus.document import UNKNOWN_LANGUAGE


@dataclasses.dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        id: Unique in its dataset.
        text: What is asked.
        language: BCP 47 code; `und` if not known.
        group: What results are averaged within first (a relation of EntityQuestions); empty for none.
        answers: Strings, any of which makes a document that contains it relevant (open-domain QA).
    """

    id: str
    text: str
    language: str = UNKNOWN_LANGUAGE
    group: str = ""
    answers: tuple[str, ...] = ()
