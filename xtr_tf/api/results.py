"""What searches and evaluations return: frozen, comparable, printable, and tables in a notebook.

Knows nothing about how it was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from xtr_tf.api import html


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document found by a search.

    Attributes:
        id: The id of the document.
        score: The score that the documents are ranked by, f_XTR' by default; higher is better.
        title: The title; empty if it has none.
        text: The text; empty if the index keeps no texts.
        language: The language; `und` if unknown.
        fields: Values of the declared fields, by name.
        xtr_score: f_XTR' without BM25; None if the index has no BM25.
        lexical_score: The BM25 score, 0 if `alpha` was 0; None if the index has no BM25.
    """

    id: str
    score: float
    title: str = ""
    text: str = ""
    language: str = "und"
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    xtr_score: float | None = None
    lexical_score: float | None = None


@dataclasses.dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """The documents found for a query, best first: a sequence of `Hit`s.

    Attributes:
        query: The query.
        hits: The documents found.

    Example:
        >>> hits = index.search("How deep is Lake Baikal?", top_k=1)
        >>> hits[0].id
        'baikal'
    """

    query: str
    hits: tuple[Hit, ...]

    @property
    def ids(self) -> list[str]:
        """The ids of the documents, best first."""
        return [hit.id for hit in self.hits]

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __str__(self) -> str:
        return "\n".join(
            f"{place:2} {hit.score:.4f} {hit.id}  {_shortened(hit.title or hit.text)}"
            for place, hit in enumerate(self.hits, start=1)
        )

    def _repr_html_(self) -> str:
        return html.hits_table(self)


@dataclasses.dataclass(frozen=True)
class TokenMatch:
    """The contribution of one query token to the score of a document.

    Attributes:
        token: The query token, a piece of the vocabulary such as `▁deep`.
        score: Its similarity to the best token that it retrieved from the document, or the imputed value.
        retrieved: Whether it retrieved a token of the document.
        match: The piece of the retrieved token; empty if none was retrieved.
        span: Position of the retrieved token in `"{title} {text}"`: its first character and the one after
            its last. None if no token was retrieved or the index keeps no positions.
    """

    token: str
    score: float
    retrieved: bool
    match: str = ""
    span: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True)
class ExplainedHit:
    """A document found by a search, with the token matches that explain its score.

    Attributes:
        hit: The document.
        matches: One match per query token, in order. f_XTR' of the document is the mean of their scores,
            weighted if the search used token weights.
    """

    hit: Hit
    matches: tuple[TokenMatch, ...]

    @property
    def full_text(self) -> str:
        """`"{title} {text}"`, which spans refer to; empty if the index keeps no texts."""
        if not self.hit.text:
            return ""
        return f"{self.hit.title} {self.hit.text}" if self.hit.title else self.hit.text


@dataclasses.dataclass(frozen=True)
class Explanation(Sequence[ExplainedHit]):
    """Which document tokens matched which query tokens: a sequence of `ExplainedHit`s.

    A notebook shows it as one table per document: query tokens above their matches, stronger colours for
    higher similarities, grey for imputed values, and the matched characters of the text marked.

    Attributes:
        query: The query.
        hits: The documents, best first.

    Example:
        >>> explanation = index.explain("How deep is Lake Baikal?", top_k=1)
        >>> explanation[0].hit.id
        'baikal'
    """

    query: str
    hits: tuple[ExplainedHit, ...]

    @overload
    def __getitem__(self, place: int) -> ExplainedHit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[ExplainedHit, ...]: ...
    def __getitem__(self, place: int | slice) -> ExplainedHit | tuple[ExplainedHit, ...]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[ExplainedHit]:
        return iter(self.hits)

    def __str__(self) -> str:
        lines = []
        for place, found in enumerate(self.hits, start=1):
            lines.append(f"{place:2} {found.hit.score:.4f} {found.hit.id}")
            lines += [
                f"   {readable_piece(match.token):>16} {match.score:.2f} "
                + (readable_piece(match.match) if match.retrieved else "(imputed)")
                for match in found.matches
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html.explanation_table(self)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The results of evaluating a model.

    Attributes:
        figures: Values in [0, 1] by dataset, system (`xtr`, `colbert`, `bm25`, …) and metric.
        metric: By dataset, the metric it is usually reported with.
        report: Folder of the report: `report.html`, `report.md`, `report.json`, runs and per-query values.

    Example:
        >>> found = model.evaluate("examples/atlas", max_queries=10, bm25=False)
        >>> list(found.figures["atlas"])
        ['xtr', 'colbert']
    """

    figures: Mapping[str, Mapping[str, Mapping[str, float]]]
    metric: Mapping[str, str]
    report: Path

    def __getitem__(self, dataset: str) -> Mapping[str, float]:
        """Returns the model's own figures on a dataset, by metric."""
        return self.figures[dataset]["xtr"]

    def __str__(self) -> str:
        rows = [
            f"{name}  {self.metric[name]}  "
            + "  ".join(f"{system} {values[self.metric[name]]:.3f}" for system, values in systems.items())
            for name, systems in self.figures.items()
        ]
        return "\n".join([*rows, f"report: {self.report / 'report.html'}"])

    def _repr_html_(self) -> str:
        return html.figures_table(self)


def readable_piece(piece: str) -> str:
    """Returns a piece without the mark of a space, unless it is nothing else."""
    return piece.replace("▁", "") or piece


def _shortened(text: str, most: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def to_records(hits: Hits) -> list[dict[str, Any]]:
    """Converts hits to plain dictionaries, for JSON."""
    return [{"rank": place, **dataclasses.asdict(hit)} for place, hit in enumerate(hits, start=1)]
