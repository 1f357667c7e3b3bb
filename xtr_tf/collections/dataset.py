"""A test collection: queries over a corpus, and what is known of the right answers.

What all layouts have in common. The files of each are its own module's business.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from xtr_tf.collections.bad_records import OnBadRecord, refuse
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import (
    LANGUAGE_FIELDS,
    TEXT_FIELDS,
    UNKNOWN_LANGUAGE,
    Document,
    first_value,
    id_field,
    text_field,
)
from xtr_tf.collections.judgements import Judgements
from xtr_tf.collections.lines import read_columns


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

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], language: str = UNKNOWN_LANGUAGE) -> Query:
        """The query of a record with the fields of a document.

        Args:
            fields: Of the record: an id, a text, and if there is one a language.
            language: Used where the record names none.

        Returns:
            The query.

        Raises:
            ValueError: The record is not a query; the message says why in a few words.
        """
        identifier, text = id_field(fields), text_field(fields, TEXT_FIELDS)
        if not identifier or first_value(fields, TEXT_FIELDS) is None:
            raise ValueError("no text" if identifier else "no id")
        return cls(identifier, text, text_field(fields, LANGUAGE_FIELDS) or language)


def read_query_columns(path: Path, language: str, on_bad: OnBadRecord = refuse) -> Iterator[Query]:
    """Queries, one per line, as an id and a text between a tab, as MS MARCO's and MIRACL's do.

    Args:
        path: Of the file.
        language: Of all queries.
        on_bad: Told of lines that are not queries.

    Yields:
        The queries in their order.
    """
    for _, (identifier, text) in read_columns(path, 2, on_bad):
        yield Query(identifier, text, language)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Queries over a corpus, and what is known of the right answers.

    A dataset is judged either by `judgements` or, if it has none, by its queries' answer strings.

    Attributes:
        name: Unique in an evaluation, such as `scifact` or `xquad_r/de`.
        queries: Those that can be judged, in the order of their file.
        judgements: Grades of documents; empty in a dataset judged by answer strings.
        corpus: Iterates over the documents, from the start each time.
        metric: The metric that the dataset is usually reported with, such as `nDCG@10`.
        collection: What it is averaged with; empty for one that is averaged with nothing.
        in_average: Whether it counts in that average, as MS MARCO does not in BEIR's.
        language: Of its documents, or `und` where they differ.
        ignores_own_document: Whether a document with the query's own id is not a result, because the
            queries are documents of the corpus.
        unjudged_queries: How many queries of the files nothing is known about; left out of `queries`.
        unknown_queries: Ids of judged queries that have no text, left out too.
    """

    name: str
    queries: tuple[Query, ...]
    judgements: Judgements
    corpus: Iterable[Document]
    metric: str = "nDCG@10"
    collection: str = ""
    in_average: bool = True
    language: str = UNKNOWN_LANGUAGE
    ignores_own_document: bool = False
    unjudged_queries: int = 0
    unknown_queries: tuple[str, ...] = ()

    @classmethod
    def of_judged_queries(
        cls,
        name: str,
        queries: Iterable[Query],
        judgements: Judgements,
        corpus: Iterable[Document],
        **others: Any,
    ) -> Dataset:
        """The dataset of those `queries` that are judged; the rest are counted.

        Args:
            name: As in the class.
            queries: All queries of the files.
            judgements: All judgements of the files.
            corpus: As in the class.
            others: Further attributes.

        Returns:
            The dataset.
        """
        asked = list(queries)
        judged = tuple(query for query in asked if query.id in judgements)
        asked_ids = {query.id for query in judged}
        known = {query: grades for query, grades in judgements.items() if query in asked_ids}
        languages = {query.language for query in judged}
        return cls(
            name=name,
            queries=judged,
            judgements=known,
            corpus=corpus,
            language=languages.pop() if len(languages) == 1 else UNKNOWN_LANGUAGE,
            unjudged_queries=len(asked) - len(judged),
            unknown_queries=tuple(query for query in judgements if query not in known),
            **others,
        )

    @property
    def is_judged_by_answers(self) -> bool:
        """Whether relevance is told by answer strings."""
        return not self.judgements

    def documents(self, ids: Container[str]) -> dict[str, Document]:
        """Some documents of the corpus by id, as far as they are there."""
        corpus = self.corpus.only(ids) if isinstance(self.corpus, CorpusReader) else self.corpus
        return {document.id: document for document in corpus if document.id in ids}

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """The same dataset with at most `count` of its queries, chosen by `seed`, in their order.

        Args:
            count: Most queries; 0 or less for all.
            seed: Of the choice.

        Returns:
            A dataset with the same corpus and judgements.
        """
        if count <= 0 or count >= len(self.queries):
            return self
        chosen = sorted(random.Random(seed).sample(range(len(self.queries)), count))  # noqa: S311
        return dataclasses.replace(self, queries=tuple(self.queries[position] for position in chosen))


_ISO_639_1 = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz
    ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik
    io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml
    mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd
    se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi
    vo wa wo xh yi yo za zh zu
"""
_ENDING = re.compile(r"(?:^|[/_.-])([a-z]{2})(?:[_-][A-Z]{2})?$")


def language_of_name(name: str) -> str:
    """The code that `name` is or ends with after `/`, `_`, `-` or `.`; `und` without one."""
    found = _ENDING.search(name)
    return found[1] if found and found[1] in _ISO_639_1 else UNKNOWN_LANGUAGE
