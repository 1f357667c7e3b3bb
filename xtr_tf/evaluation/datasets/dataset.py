"""A test collection as every loader gives it: queries, judgements, a corpus to read, how it is measured.

Knows nothing of files and nothing of systems.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping

from xtr_tf.corpus.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.evaluation.datasets.query import Query

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
