"""What searches and evaluations return: frozen, comparable, printable, and tables in a notebook.

Knows nothing of how it was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from xtr_tf.api import html


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document that was found.

    Attributes:
        id: Its id.
        score: f_XTR', or what the request ranked by; higher is better.
        title: Its title, empty without one.
        text: Its text, empty where the index keeps none.
        language: Its language, `und` if not known.
        fields: Values of its fields, by name.
        xtr_score: f_XTR' of its own, where the index has BM25; None where it has not.
        lexical_score: BM25, likewise; 0 if `alpha` was 0.
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
    """The documents found for a query, the best first; a sequence of `Hit`s.

    Attributes:
        query: What was asked.
        hits: What was found.

    Example:
        >>> hits = index.search("How deep is Lake Baikal?", top_k=1)
        >>> hits[0].id
        'baikal'
    """

    query: str
    hits: tuple[Hit, ...]

    @property
    def ids(self) -> list[str]:
        """The documents' ids, the best first."""
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
    """How one token of a query counts for a document.

    Attributes:
        token: The query token, a piece of the vocabulary such as `▁deep`.
        score: What it counts with: its similarity to the document's best retrieved token, or what was
            imputed.
        retrieved: Whether it retrieved a token of the document.
        match: That token's piece; empty if none was retrieved.
        span: Where that token is in `"{title} {text}"`, first character and the one after the last; None
            if none was retrieved, or the index keeps no places.
    """

    token: str
    score: float
    retrieved: bool
    match: str = ""
    span: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True)
class ExplainedHit:
    """A document that was found, and why.

    Attributes:
        hit: The document.
        matches: One per query token, in order; the score of the document is their mean.
    """

    hit: Hit
    matches: tuple[TokenMatch, ...]

    @property
    def full_text(self) -> str:
        """`"{title} {text}"`, which spans count in; empty where the index keeps no texts."""
        if not self.hit.text:
            return ""
        return f"{self.hit.title} {self.hit.text}" if self.hit.title else self.hit.text


@dataclasses.dataclass(frozen=True)
class Explanation(Sequence[ExplainedHit]):
    """Which tokens of documents answered which tokens of a query; a sequence of `ExplainedHit`s.

    In a notebook it is a table: the query's tokens over each document's matches, stronger colours for higher
    similarities, grey for what was imputed, and the matched characters of the text marked.

    Attributes:
        query: What was asked.
        hits: The documents, the best first.
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
    """What a model's evaluation found.

    Attributes:
        figures: By dataset, then system (`xtr`, `colbert`, `bm25`, …), then metric, in [0, 1].
        metric: The metric that each dataset is usually reported with.
        report: Folder of the report: `report.html`, `report.md`, `report.json`, runs and values of queries.

    Example:
        >>> found = model.evaluate("examples/atlas", max_queries=10, bm25=False)
        >>> list(found.figures["atlas"])
        ['xtr', 'colbert']
    """

    figures: Mapping[str, Mapping[str, Mapping[str, float]]]
    metric: Mapping[str, str]
    report: Path

    def __getitem__(self, dataset: str) -> Mapping[str, float]:
        """The model's own figures on a dataset, by metric."""
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
    """A piece as people write it; the mark of a space stays where there is nothing else."""
    return piece.replace("▁", "") or piece


def _shortened(text: str, most: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def to_records(hits: Hits) -> list[dict[str, Any]]:
    """The documents as plain values, for JSON."""
    return [{"rank": place, **dataclasses.asdict(hit)} for place, hit in enumerate(hits, start=1)]
