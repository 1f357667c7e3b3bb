"""A test collection: queries, a corpus, and judgements or answers.

The types are common to all layouts. Each layout has its own module, which reads its files.
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
        text: The text of the query.
        language: BCP 47 code; `und` if unknown.
        group: Group within which results are averaged first (a relation of EntityQuestions); empty for none.
        answers: Answer strings. A document that contains one of them is relevant (open-domain QA).
    """

    id: str
    text: str
    language: str = UNKNOWN_LANGUAGE
    group: str = ""
    answers: tuple[str, ...] = ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], language: str = UNKNOWN_LANGUAGE) -> Query:
        """Makes a query from a record.

        Args:
            fields: Fields of the record: an id, a text and optionally a language.
            language: Language if the record does not name one.

        Returns:
            The query.

        Raises:
            ValueError: The record is not a query. The message says why in a few words.
        """
        identifier, text = id_field(fields), text_field(fields, TEXT_FIELDS)
        if not identifier or first_value(fields, TEXT_FIELDS) is None:
            raise ValueError("no text" if identifier else "no id")
        return cls(identifier, text, text_field(fields, LANGUAGE_FIELDS) or language)


def read_query_columns(path: Path, language: str, on_bad: OnBadRecord = refuse) -> Iterator[Query]:
    """Reads queries from lines of an id, a tab and a text, as in MS MARCO and MIRACL.

    Args:
        path: The file.
        language: Language of all queries.
        on_bad: Called for lines that are not queries.

    Yields:
        The queries, in the order of the file.
    """
    for _, (identifier, text) in read_columns(path, 2, on_bad):
        yield Query(identifier, text, language)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Queries, a corpus, and judgements.

    A dataset is judged by `judgements` or, if it has none, by the answer strings of its queries.

    Attributes:
        name: Unique in an evaluation, such as `scifact` or `xquad_r/de`.
        queries: The judged queries, in the order of their file.
        judgements: Grades of documents; empty if the dataset is judged by answer strings.
        corpus: The documents. Each iteration starts from the beginning.
        metric: The metric that the dataset is usually reported with, such as `nDCG@10`.
        collection: The collection whose average it belongs to; empty for none.
        in_average: Whether it counts in that average. MS MARCO, for example, does not count in BEIR's.
        language: Language of its documents; `und` if they differ.
        ignores_own_document: Whether to leave a document with the id of the query out of the results,
            because the queries are documents of the corpus.
        unjudged_queries: Number of queries without judgements, which are not in `queries`.
        unknown_queries: Ids of judged queries without a text, which are not in `queries` either.
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
        """Makes a dataset of the queries that are judged, and counts the others.

        Args:
            name: Name of the dataset.
            queries: All queries.
            judgements: All judgements.
            corpus: The documents.
            **others: Other attributes of the dataset.

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
        """Whether relevance is judged by answer strings."""
        return not self.judgements

    def documents(self, ids: Container[str]) -> dict[str, Document]:
        """Returns the documents with these ids, by id. Missing ones are left out."""
        corpus = self.corpus.only(ids) if isinstance(self.corpus, CorpusReader) else self.corpus
        return {document.id: document for document in corpus if document.id in ids}

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """Samples queries, and keeps their order.

        Args:
            count: Maximum number of queries; 0 or less for all.
            seed: Seed of the sample.

        Returns:
            A dataset with at most `count` queries and the same corpus and judgements.
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
    """Returns the language code that `name` is or ends with after `/`, `_`, `-` or `.`; `und` if none."""
    found = _ENDING.search(name)
    return found[1] if found and found[1] in _ISO_639_1 else UNKNOWN_LANGUAGE
