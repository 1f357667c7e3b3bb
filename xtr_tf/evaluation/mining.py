"""Hard negatives for training: documents that a system ranks high for a query and that do not answer it.

A document in the window of ranks is used unless it may answer the query: because it is a positive of the same
query in any example, a copy of one, has the title of a positive, or scores too close to a positive. Does not
know which system ranks.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.run import Run
from xtr_tf.progress import track
from xtr_tf.training.data.examples import TrainingExample

#: Ranks documents for some queries, up to a number per query.
Rank = Callable[[Sequence[Query], int], Run]

_QUERIES_AT_ONCE = 2_000


@dataclasses.dataclass(frozen=True)
class MiningSettings:
    """Settings of mining hard negatives.

    Attributes:
        negatives: Maximum number of negatives per query; the best-ranked ones are used.
        first_rank: First rank of the window, from 1.
        last_rank: Last rank of the window.
        margin: The score of a negative must be lower than that of every positive found, by this share of it.
            A query whose positives are not found in the window or above it then gets no negatives. None
            ignores scores.
        same_title: Whether to use documents with the title of a positive, which often answer the query, too.
    """

    negatives: int = 4
    first_rank: int = 1
    last_rank: int = 50
    margin: float | None = None
    same_title: bool = False

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise InputError(f"`negatives` must be positive. Received: {self.negatives}.")
        if not 1 <= self.first_rank <= self.last_rank:
            raise InputError(
                "The window of ranks must begin at 1 or later, and end no earlier than it begins. "
                f"Received: {self.first_rank} to {self.last_rank}."
            )
        if self.margin is not None and not 0 <= self.margin < 1:
            raise InputError(f"`margin` must be a share in [0, 1). Received: {self.margin}.")


def mine_negatives(
    examples: Sequence[TrainingExample],
    documents: Iterable[Document],
    rank: Rank,
    settings: MiningSettings | None = None,
) -> Iterator[TrainingExample]:
    """Adds hard negatives to training examples.

    Args:
        examples: Queries with their positives.
        documents: The documents that `rank` ranks, with their ids.
        rank: A system, such as `BM25(documents).search`.
        settings: Which documents become negatives; the defaults if None.

    Yields:
        Every example, with its own negatives first and then those that were found.

    Raises:
        InputError: `rank` finds a document that is not among `documents`.
    """
    settings = settings or MiningSettings()
    by_id = {document.id: document for document in documents}
    guard = _Guard(examples, settings.same_title)
    with track("mine", len(examples), "queries") as progress:
        for start in range(0, len(examples), _QUERIES_AT_ONCE):
            block = examples[start : start + _QUERIES_AT_ONCE]
            queries = [Query(str(number), example.query) for number, example in enumerate(block)]
            run = rank(queries, settings.last_rank)
            for query, example in zip(queries, block, strict=True):
                found = _look_up(run.documents(query.id), by_id)
                ranked = list(zip(found, run.scores(query.id).tolist(), strict=True))
                yield _with_negatives(example, _choose(example, ranked, guard, settings))
            progress.advance(len(block))


def to_json(example: TrainingExample) -> str:
    """An example as a line of a training file, which `TrainingExample.from_json` reads."""
    given = [*example.positives, *example.negatives]
    rendered = [_fields(document, example.teacher_score(place)) for place, document in enumerate(given)]
    count = len(example.positives)
    record = {
        **({"id": example.id} if example.id else {}),
        "query": example.query,
        "language": example.language,
        "positives": rendered[:count],
        "negatives": rendered[count:],
    }
    return json.dumps(record, ensure_ascii=False)


def _fields(document: Document, score: float) -> dict[str, Any]:
    # Documents without ids are identified by their text (`dataset_of_examples`).
    id_ = "" if document.id == document.full_text else document.id
    fields = {"id": id_, "title": document.title, "text": document.text}
    return {
        **{name: value for name, value in fields.items() if value},
        **({} if math.isnan(score) else {"score": score}),
    }


class _Guard:
    """Finds the documents that may answer a query, from all examples with that query."""

    def __init__(self, examples: Iterable[TrainingExample], same_title: bool) -> None:
        self._same_title = same_title
        self._ids: defaultdict[str, set[str]] = defaultdict(set)
        self._texts: defaultdict[str, set[str]] = defaultdict(set)
        self._titles: defaultdict[str, set[str]] = defaultdict(set)
        for example in examples:
            key = _plain(example.query)
            for positive in example.positives:
                self._ids[key].add(positive.id)
                self._texts[key].add(_plain(positive.text))
                self._titles[key].add(_plain(positive.title))

    def is_positive(self, query: str, document: Document) -> bool:
        """Returns whether the document is a positive, or a copy of one."""
        key = _plain(query)
        is_named = bool(document.id) and document.id in self._ids[key]
        return is_named or _plain(document.text) in self._texts[key]

    def may_answer(self, query: str, document: Document) -> bool:
        """Returns whether the document may be one: a positive, a copy, or one with a positive's title."""
        title = _plain(document.title)
        is_near = bool(title) and not self._same_title and title in self._titles[_plain(query)]
        return is_near or self.is_positive(query, document)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _look_up(ids: Iterable[str], by_id: Mapping[str, Document]) -> list[Document]:
    try:
        return [by_id[identifier] for identifier in ids]
    except KeyError as error:
        raise InputError(
            "Negatives are taken from the corpus that the model's index was built from; give that one. "
            f"Received: a corpus without the document {error.args[0]!r}."
        ) from None


def _choose(
    example: TrainingExample,
    ranked: Sequence[tuple[Document, float]],
    guard: _Guard,
    settings: MiningSettings,
) -> list[Document]:
    most = math.inf
    if settings.margin is not None:
        found = [score for document, score in ranked if guard.is_positive(example.query, document)]
        most = min((score - settings.margin * abs(score) for score in found), default=-math.inf)
    given = {_plain(document.text) for document in example.negatives}
    chosen = []
    for document, score in ranked[settings.first_rank - 1 :]:
        text = _plain(document.text)
        if score <= most and text not in given and not guard.may_answer(example.query, document):
            chosen.append(document)
            given.add(text)
    return chosen[: settings.negatives]


def _with_negatives(example: TrainingExample, mined: Sequence[Document]) -> TrainingExample:
    scores = example.teacher_scores
    return example._replace(
        negatives=(*example.negatives, *mined),
        teacher_scores=(*scores, *[math.nan] * len(mined)) if scores else (),
    )
