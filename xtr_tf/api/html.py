"""Renders results as HTML for a notebook. Text from documents and queries is always escaped.

Knows results only by their attributes. The colours work on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xtr_tf.api.results import Evaluation, ExplainedHit, Explanation, Hits, TokenMatch

_TEXT_CHARACTERS = 300
_CELL = "text-align:left;vertical-align:top;padding:2px 8px"
# The hue of a retrieved similarity; its opacity shows the value.
_RED, _GREEN, _BLUE = 0, 128, 128


def hits_table(hits: Hits) -> str:
    """Renders the documents found for a query."""
    rows = (
        [
            str(place),
            f"{hit.score:.4f}",
            f"<code>{escape(hit.id)}</code>",
            escape(hit.language),
            escape(hit.title),
            escape(_cut(hit.text)),
        ]
        for place, hit in enumerate(hits, start=1)
    )
    return _table(hits.query, ["", "score", "id", "language", "title", "text"], rows)


def explanation_table(explanation: Explanation) -> str:
    """Renders one table per document: query tokens, their matches, and the text with the matches marked."""
    parts = [f"<p><b>{escape(explanation.query)}</b></p>"]
    for place, found in enumerate(explanation, start=1):
        name = f"{place}. <code>{escape(found.hit.id)}</code> {found.hit.score:.4f}"
        tokens = "".join(_token_cell(match) for match in found.matches)
        matched = "".join(
            f'<td style="{_CELL};opacity:.75">'
            + (escape(_readable(match.match)) if match.retrieved else "imputed")
            + f"<br>{match.score:.2f}</td>"
            for match in found.matches
        )
        parts.append(
            f"<p>{name}</p><table><tr>{tokens}</tr><tr>{matched}</tr></table><p>{_marked_text(found)}</p>"
        )
    return "".join(parts)


def figures_table(evaluation: Evaluation) -> str:
    """Renders one row per dataset and one column per system, by the metric usual for each dataset."""
    systems = list(dict.fromkeys(name for found in evaluation.figures.values() for name in found))
    rows = (
        [
            escape(dataset),
            escape(evaluation.metric[dataset]),
            *(
                f"{100 * found[system][evaluation.metric[dataset]]:.1f}" if system in found else ""
                for system in systems
            ),
        ]
        for dataset, found in evaluation.figures.items()
    )
    table = _table("", ["dataset", "metric", *map(escape, systems)], rows)
    return f"{table}<p>{escape(str(evaluation.report / 'report.html'))}</p>"


def _table(caption: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Builds a table from cells that are already markup."""
    title = f'<caption style="text-align:left"><b>{escape(caption)}</b></caption>' if caption else ""
    head = "".join(f'<th style="{_CELL}">{heading}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _token_cell(match: TokenMatch) -> str:
    background = f"background:{_colour(match.score)}" if match.retrieved else "opacity:.5"
    return f'<td style="{_CELL};{background}"><b>{escape(_readable(match.token))}</b></td>'


def _colour(score: float) -> str:
    return f"rgba({_RED},{_GREEN},{_BLUE},{min(max(score, 0.0), 1.0) ** 2:.2f})"


def _marked_text(found: ExplainedHit) -> str:
    """Marks the characters that query tokens matched; where matches overlap, the best one sets the colour."""
    text = found.full_text
    strength = [0.0] * len(text)
    for match in found.matches:
        if match.retrieved and match.span is not None:
            for position in range(max(match.span[0], 0), min(match.span[1], len(text))):
                strength[position] = max(strength[position], match.score)
    parts, start = [], 0
    for end in range(1, len(text) + 1):
        if end == len(text) or strength[end] != strength[start]:
            piece = escape(text[start:end])
            colour = _colour(strength[start])
            parts.append(
                f'<span style="background:{colour}">{piece}</span>' if strength[start] > 0 else piece
            )
            start = end
    return "".join(parts)


def _readable(piece: str) -> str:
    return piece.replace("▁", "") or piece


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[: _TEXT_CHARACTERS - 1]}…"
