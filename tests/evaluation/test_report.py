"""The report: its content in every format, and its page in a browser."""

from __future__ import annotations

import copy
import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.chromium import open_page
from xtr_tf.evaluation.report import formatting
from xtr_tf.evaluation.report.html import render_html
from xtr_tf.evaluation.report.markdown import render_markdown
from xtr_tf.evaluation.report.plots import draw_plots
from xtr_tf.evaluation.report.sections import headline, settings_rows

LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")
SYSTEMS = {"xtr": 0.6, "colbert": 0.58, "baseline": 0.55, "bm25": 0.5, "bm25_words": 0.5, "bm25_ngrams": 0.52}
TRICKY = "<script>alert('x')</script> & a|b"


def figures(shift: float, metrics: tuple[str, ...]) -> dict[str, Any]:
    return {
        system: {
            metric: {"value": value + shift, "low": value + shift - 0.03, "high": value + shift + 0.03}
            for metric in metrics
        }
        for system, value in SYSTEMS.items()
    }


def difference(name: str, place: int) -> dict[str, Any]:
    value = (place - 4) / 100
    verdict = "better" if value > 0.02 else "worse" if value < -0.02 else "no clear difference"
    row = {"name": name, "metric": "nDCG@10", "queries": 1190, "value": value, "low": value - 0.02}
    return {**row, "high": value + 0.02, "p": 0.0004, "adjusted_p": 0.004, "verdict": verdict}


def analysis(place: int) -> dict[str, Any]:
    metrics = {"nDCG@10": 0.5, "MRR@10": 0.45, "Recall@100": 0.8}
    return {
        "queries": 100,
        "query_tokens": 1500,
        "gold_probability": [0.3 / (rank + 1) for rank in range(100)],
        "lexical_probability": [0.9 - 0.005 * rank for rank in range(100)],
        "histogram_edges": [0.2 + 0.025 * edge for edge in range(5 + place % 3)],
        "gold_density": [10.0] * (4 + place % 3),
        "other_density": [8.0] * (4 + place % 3),
        "k_prime_metrics": {str(k): metrics for k in (10, 100, 1000)},
        "colbert_metrics": metrics,
        "imputation_metrics": dict.fromkeys(("none", "0.0", "0.2", "top_k_prime"), metrics),
        "k_prime": 1000,
        "cost": {
            **{"query_tokens": 16.0, "document_tokens": 55.0, "dim": 128.0, "candidates": 640.0},
            **{"retrieved_tokens": 2.5, "colbert_flops": 3.62e8, "xtr_flops": 8.96e4, "ratio": 4039.0},
            "gathered_bytes": 4.5e8,
        },
    }


def dataset(place: int, language: str) -> dict[str, Any]:
    zero = dict.fromkeys(SYSTEMS, 0)
    return {
        **{"name": f"xquad_r/{language}", "metric": "nDCG@10", "queries": 1190, "language": language},
        **{"collection": "xquad_r", "documents": 1200, "tokens": 50_000, "depth": 100},
        "figures": figures(place / 50, ("nDCG@10", "MRR@10", "Judged@10")),
        "honesty": {
            **{"queries_not_sampled": 3, "queries_without_judgements": 2, "judged_queries_without_text": 0},
            **{"queries_without_relevant_documents": 1, "records_left_out": {"empty": 2}},
            **{"relevant_documents_missing": 4, "empty_results": {**zero, "bm25_words": 77}},
            "documents_not_in_corpus": zero,
        },
        "analysis": analysis(place),
        "exact_check": None,
        "seconds": {"encode": 3.0},
    }


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """A report of eleven languages against another model, with nothing left out."""
    average = {"name": "xquad_r", "metric": "nDCG@10", "queries": 13_090, "datasets": 11}
    labels = {"xtr": "XTR", "colbert": "ColBERT scoring", "baseline": "production/7", "bm25": "BM25"}
    labels |= {"bm25_words": "BM25 words", "bm25_ngrams": "BM25 n-grams"}
    rows = [dataset(place, language) for place, language in enumerate(LANGUAGES)]
    rows[0]["exact_check"] = {
        **{"queries": 100, "overlap_at_10": 0.91, "cut_documents": 7, "note": ""},
        "metrics": {search: {"nDCG@10": 0.6} for search in ("index", "exact_xtr", "exact_colbert")},
    }
    rows[1]["exact_check"] = {
        **{"queries": 0, "overlap_at_10": 0.0, "cut_documents": 0, "metrics": {}, "note": "not asked for"},
    }
    token = {
        "rank": 1,
        "score": 0.91,
        "document": "d",
        "before": "…before ",
        "token": "<b>",
        "after": " after",
    }
    example = {"dataset": "xquad_r/en", "query": TRICKY, "language": "en", "token": "script"}
    return {
        "format_version": 1,
        "created": "2025-01-31T12:00:00+00:00",
        "model": {"name": "candidate/8", "kind": "exported model, its own index"},
        "baseline": {"name": "production/7", "kind": "exported model, its own index"},
        "settings": {"k_prime": 1000, "analysis_queries": 100, "seed": 0},
        "systems": [{"key": key, "label": label, "description": "text"} for key, label in labels.items()],
        "datasets": rows,
        "averages": [{**average, "figures": figures(0.1, ("nDCG@10", "MRR@10"))}],
        "languages": [
            {"name": row["language"], "metric": "nDCG@10", "queries": 1190, "figures": row["figures"]}
            for row in rows
        ],
        "comparisons": [
            {
                **{"system": "xtr", "other": other},
                "datasets": [difference(f"xquad_r/{own}", place) for place, own in enumerate(LANGUAGES)],
                "averages": [difference("xquad_r", 8)],
                "languages": [difference(own, place) for place, own in enumerate(LANGUAGES)],
            }
            for other in ("baseline", "bm25", "colbert")
        ],
        "examples": [{**example, "same_piece": 0.08, "tokens": [{**token, "is_relevant": True}]}],
        "seconds": 192.4,
        "versions": {"xtr-tf": "0.1.0", "tensorflow": "2.16.2"},
        "machine": {"processor": "a processor", "cores": 2, "system": "Linux"},
    }


@pytest.fixture(scope="module")
def page(content: dict[str, Any]) -> str:
    return render_html(content)


def test_figures_of_every_language_are_shown(content: dict[str, Any], page: str) -> None:
    markdown = render_markdown(content).partition("### By language")[2].partition("\n## ")[0]
    header = next(line for line in markdown.splitlines() if line)
    assert header == "|  | metric | queries | XTR | ColBERT scoring | production/7 | BM25 |"
    table = page.partition("<h3>By language</h3>")[2].partition("</table>")[0]
    for row in content["languages"]:
        value = formatting.points(row["figures"]["xtr"]["nDCG@10"]["value"])
        for text in (markdown, table):
            (line,) = (
                own for own in re.split("</tr>|\n\\|", text) if formatting.language(row["name"]) in own
            )
            assert value in line


def test_headline_says_what_came_out(content: dict[str, Any]) -> None:
    assert headline(content) == (
        "XTR reaches 70.0 nDCG@10 on average over 11 datasets, production/7 65.0. Of 11 datasets XTR is "
        "better than production/7 on 4, worse on 2, and not clearly different on 5."
    )
    alone = copy.deepcopy(content)
    alone |= {"averages": [], "comparisons": [], "datasets": alone["datasets"][:1]}
    assert headline(alone) == "XTR reaches 60.0 nDCG@10 on xquad_r/ar."


def test_page_needs_nothing_else_and_escapes_text(page: str) -> None:
    assert not re.search(r'(?:src|href)="(?!#|data:,)', page), "no address but anchors"
    assert "@import" not in page
    assert "<script" not in page
    assert html.escape(TRICKY).replace("&#x27;", "&#39;") in page
    assert "<mark>&lt;b&gt;</mark>" in page


def test_page_shows_every_row_verdict_and_count(page: str, content: dict[str, Any]) -> None:
    for row in content["datasets"]:
        assert row["name"] in page
        assert formatting.language(row["language"]) in page
    assert page.count("▲ better") > 0
    assert page.count("▼ worse") > 0
    assert "BM25 words 77" in page
    assert "2 empty" in page
    assert "7 documents may have been cut" in page
    assert "not asked for" in page
    assert "362 million" in page
    assert "89.6 thousand" in page
    assert "450 MB" in page


def test_ids_on_the_page_are_unique_and_all_links_lead_somewhere(page: str) -> None:
    ids = re.findall(r'\sid="?([^"\s>]+)', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_plots_take_their_colours_from_the_page(content: dict[str, Any]) -> None:
    plots = draw_plots(content)
    assert set(plots) == {"quality-nDCG@10", "differences", "gold", "lexical", "similarities", "k-prime"}
    for name, svg in plots.items():
        colours = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))
        assert colours <= {"#ffffff", "#000000"}, name
        assert "var(--series-1)" in svg
        assert "viewBox" in svg
        assert "<text" in svg
    assert "German (de)" in plots["differences"]
    assert "points" in plots["differences"]


def test_plots_of_datasets_with_different_metrics(content: dict[str, Any]) -> None:
    mixed = copy.deepcopy(content)
    mixed["datasets"][0] |= {"metric": "MRR@10", "analysis": None, "exact_check": None}
    mixed["averages"][0]["metric"] = ""
    plots = draw_plots(mixed)
    assert {"quality-nDCG@10", "quality-MRR@10"} <= set(plots)
    assert "quality-MRR@10" in render_html(mixed)
    assert render_markdown(mixed)


def test_a_plot_leaves_out_a_system_without_the_metric(content: dict[str, Any]) -> None:
    partial = copy.deepcopy(content)
    for row in (*partial["datasets"], *partial["averages"]):
        row["figures"]["baseline"].pop(row["metric"])
    label = next(system["label"] for system in content["systems"] if system["key"] == "baseline")
    assert label in draw_plots(content)["quality-nDCG@10"]
    assert label not in draw_plots(partial)["quality-nDCG@10"]


def test_a_report_of_one_dataset_without_anything_else(content: dict[str, Any]) -> None:
    bare = copy.deepcopy(content)
    bare |= {"averages": [], "comparisons": [], "examples": [], "baseline": None}
    bare["datasets"] = bare["datasets"][2:3]
    bare["datasets"][0] |= {"analysis": None, "figures": {"xtr": bare["datasets"][0]["figures"]["xtr"]}}
    bare["systems"] = bare["systems"][:1]
    assert "Token retrieval" not in render_html(bare)
    assert "XTR compared with" not in render_markdown(bare)


def test_markdown_has_the_same_tables(content: dict[str, Any]) -> None:
    text = render_markdown(content)
    assert "| xquad_r | 13,090 | **70.0** [67.0 to 73.0] |" in text
    assert "| German (de) | nDCG@10 | 1,190 | −3.0 | −5.0 to −1.0 | < 0.001 | 0.004 | ▼ worse |" in text
    assert "a\\|b" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for line, above in zip(rows[1:], rows, strict=False):
        if line.startswith("| ---"):
            assert line.count(" | ") == above.count(" | ")


def test_lengths_of_vectors_are_shown_if_there_are_any(content: dict[str, Any]) -> None:
    assert "lengths of vectors" not in dict(settings_rows(content))
    settings = {**content["settings"], "length_penalty": 0.06, "repetition_bonus": 0.1}
    rows = dict(settings_rows({**content, "settings": settings}))
    assert rows["lengths of vectors"] == "penalty 0.06, bonus 0.1"


def test_numbers_are_written_for_people() -> None:
    assert formatting.signed_points(-0.021) == "−2.1"
    assert formatting.signed_points(-0.0001) == "0.0"
    assert formatting.points(None) == "–"
    assert formatting.operations(3.6188e8) == "362 million"
    assert formatting.operations(89_600) == "89.6 thousand"
    assert formatting.p_text(0.0001) == "< 0.001"
    assert formatting.duration(312.4) == "5 min 12 s"
    assert formatting.megabytes(4.5e8) == "450 MB"
    assert formatting.language("xx") == "xx"


PROBE = """<script>
window.errors = [];
window.addEventListener('error', event => window.errors.push(String(event.message)));
window.addEventListener('load', () => {
  const frame = document.querySelector('iframe').contentDocument;
  const plots = [...frame.querySelectorAll('[data-plot]')].map(figure => {
    const drawn = [...figure.querySelectorAll('svg path, svg use')].map(shape => shape.getBBox());
    const box = figure.querySelector('svg').getBoundingClientRect();
    const texts = [...figure.querySelectorAll('svg text')];
    const cut = texts.filter(text => {
      const own = text.getBoundingClientRect();
      return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
    }).map(text => text.textContent);
    return {name: figure.dataset.plot, texts: texts.length, cut, width: box.width, height: box.height,
            shapes: drawn.filter(own => own.width > 2 || own.height > 2).length};
  });
  const wide = [...frame.querySelectorAll('body *')].filter(own => {
    const hidden = (own.closest('.scroll') && !own.matches('.scroll')) || own.ownerSVGElement;
    return !hidden && own.getBoundingClientRect().right > frame.documentElement.clientWidth + 1;
  }).map(own => own.tagName + '.' + own.className);
  const result = {errors: window.errors, plots, wide, scroll: frame.documentElement.scrollWidth,
                  client: frame.documentElement.clientWidth};
  document.querySelector('pre').textContent = JSON.stringify(result);
});
</script><pre></pre><iframe src="report.html" style="border:0; width:WIDTHpx; height:3000px"></iframe>"""


@pytest.fixture(scope="module")
def browse(page: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], dict[str, Any]]:
    """Opens the page in Chromium at a width and in a colour scheme; gives what the probe and console said."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(page, encoding="utf-8")

    def look(width: int, scheme: str) -> dict[str, Any]:
        (folder / "probe.html").write_text(PROBE.replace("WIDTH", str(width)), encoding="utf-8")
        seen = open_page(
            (folder / "probe.html").as_uri(),
            *("--hide-scrollbars", "--allow-file-access-from-files", "--dump-dom"),
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            f"--window-size={max(width + 40, 520)},3000",
        )
        found = re.search(r"<pre>(.*?)</pre>", seen.elements, re.DOTALL)
        assert found
        assert found[1], seen.log[-2000:]
        return {**json.loads(html.unescape(found[1])), "console": seen.console}

    return look


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_page_in_a_browser(browse: Callable[[int, str], dict[str, Any]], width: int, scheme: str) -> None:
    seen = browse(width, scheme)
    assert seen["errors"] == []
    assert seen["console"] == []
    assert seen["client"] == width
    assert seen["scroll"] <= width, "the page itself never scrolls sideways"
    assert seen["wide"] == []
    assert len(seen["plots"]) == 6
    for plot in seen["plots"]:
        assert plot["shapes"] >= 5, plot
        assert plot["texts"] >= 5, plot
        assert plot["cut"] == [], plot
        assert plot["width"] > 200, plot
        assert plot["height"] > 100, plot
