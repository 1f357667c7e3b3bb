"""Results can be printed and compared but not changed, and nothing in them is read as markup."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from pathlib import Path

import pytest

from xtr_tf.api.results import Evaluation, ExplainedHit, Explanation, Hit, Hits, TokenMatch

EVIL = "<script>alert('\"&')</script><img src=x onerror=y>"


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def evil_explanation() -> Explanation:
    hit = Hit(EVIL, 0.5, EVIL, EVIL, EVIL)
    matches = (TokenMatch(EVIL, 0.9, True, EVIL, (0, 9)), TokenMatch(EVIL, 0.2, False))
    return Explanation(EVIL, (ExplainedHit(hit, matches),))


@pytest.mark.parametrize(
    "shown",
    [
        Hits(EVIL, (Hit(EVIL, 0.5, EVIL, EVIL, EVIL),)),
        evil_explanation(),
        Evaluation({EVIL: {EVIL: {"nDCG@10": 0.5}}}, {EVIL: "nDCG@10"}, Path(EVIL)),
    ],
    ids=["hits", "explanation", "evaluation"],
)
def test_nothing_from_documents_is_markup(shown: object) -> None:
    page = Tags(shown._repr_html_())  # type: ignore[attr-defined]
    assert page.tags.isdisjoint({"script", "img"})
    assert EVIL in page.text or "<script>" in page.text


def test_matched_characters_are_coloured() -> None:
    hit = Hit("a", 0.5, "", "the deep lake", "en")
    matches = (TokenMatch("▁deep", 0.9, True, "▁deep", (3, 8)), TokenMatch("▁how", 0.1, False))
    page = Explanation("how deep", (ExplainedHit(hit, matches),))._repr_html_()
    assert '<span style="background:rgba(0,128,128,0.81)"> deep</span> lake' in page
    assert "imputed" in page


def test_spans_beyond_the_text_do_no_harm() -> None:
    hit = Hit("a", 0.5, "", "short", "en")
    page = Explanation("q", (ExplainedHit(hit, (TokenMatch("q", 0.5, True, "x", (3, 99)),)),))._repr_html_()
    assert "sho<span" in page


def test_hits_are_a_frozen_sequence() -> None:
    hits = Hits("q", (Hit("a", 0.9, "A title"), Hit("b", 0.5, text="A text\nof two lines")))
    assert (len(hits), hits.ids, hits[0].id, [hit.id for hit in hits[1:]]) == (2, ["a", "b"], "a", ["b"])
    assert hits == Hits("q", tuple(hits))
    assert str(hits).splitlines() == [" 1 0.9000 a  A title", " 2 0.5000 b  A text of two lines"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        hits[0].score = 1.0  # type: ignore[misc]


def test_an_explanation_prints_its_matches() -> None:
    shown = str(evil_explanation())
    assert "(imputed)" in shown
    assert "0.90" in shown
