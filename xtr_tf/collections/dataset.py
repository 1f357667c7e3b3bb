"""One question of a test collection."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterable, Mapping

from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document


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


#: Document id to grade, by query id.
Judgements = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Queries over a corpus, and what is known of the right answers.

    A dataset is judged either by `judgements` or, if it has none, by its queries' answer strings.

    Attributes:
        name: Unique in an evaluation, such as `scifact` or `xquad_r/de`.
        queries: Those that can be judged, in the order of their file.
        judgements: Grades of documents; empty in a dataset judged by answer strings.
        corpus: Iterates over the documents, from the start each time.
        metric: The metric that the dataset is usually reported with, one of `measures.METRICS`.
        collection: What it is averaged with; empty for a dataset that stands alone.
        in_average: Whether it counts in that average, as MS MARCO does not in BEIR's.
        language: Of its documents, or `und` where they differ.
        ignores_own_document: Whether a document with the query's own id is no result, because the
            queries are documents of the corpus.
        unjudged_queries: Queries of the files that nothing is known about, left out of `queries`.
        unknown_queries: Judged queries that have no text, left out too.
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
    unknown_queries: int = 0

    @property
    def is_judged_by_answers(self) -> bool:
        """Whether relevance is told by answer strings."""
        return not self.judgements

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """The same dataset with at most `count` of its queries, chosen by `seed`, in their order."""
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
