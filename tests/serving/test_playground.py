"""The page to try queries on, in a browser."""

from __future__ import annotations

import json
import os
import re
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support.chromium import open_page

QUERY = "highest mountain on earth"


def test_the_page_is_complete_and_self_contained(retriever_server):
    address = f"http://127.0.0.1:{retriever_server.rest_port}/?from=bookmark"
    with urllib.request.urlopen(address, timeout=10) as answer:
        page = answer.read().decode()
        policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "innerHTML" not in page


def test_the_examples_have_a_passage(repository):
    page = (repository / "serving" / "server" / "wire" / "playground.html").read_text()
    examples = re.findall(r'"([^"]+)"', page.partition("const EXAMPLES = [")[2].partition("];")[0])
    atlas = repository / "examples" / "atlas"
    queries = [json.loads(line) for line in (atlas / "queries.jsonl").read_text().splitlines()]
    known = {query["text"]: query["language"] for query in queries}
    assert examples[0] == "highest mountain in Africa"
    assert [known[example] for example in examples[1:]] == ["de", "fr", "ja", "ar"]


def test_the_models_are_named(retriever_server):
    assert retriever_server.rest("/playground/models", {})[1]["models"][-1] == "whole"


def test_there_is_no_page_unless_asked_for(server):
    assert server.rest("/")[0] == 400
    assert server.rest("/playground/models", {})[0] == 400


@pytest.fixture(scope="module")
def browse(retriever_server, tmp_path_factory):
    # Screenshots are kept where this says, for people.
    folder = Path(os.environ.get("XTR_TF_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))

    def run(name: str, asked: dict[str, str], *flags: str) -> tuple[str, str, Path]:
        """Returns the page's elements, what its console said, and a screenshot."""
        address = f"http://127.0.0.1:{retriever_server.rest_port}/?{urllib.parse.urlencode(asked)}"
        screenshot = folder / f"{name}.png"
        common = ("--virtual-time-budget=15000", "--window-size=1000,1400", *flags)
        page = open_page(address, *common, "--dump-dom")
        open_page(address, *common, f"--screenshot={screenshot}")
        return page.elements, "\n".join(page.console), screenshot

    return run


def test_the_page_shows_answers(browse):
    page, console, screenshot = browse("results", {"q": QUERY, "model": "whole", "k": "20"})
    assert console == ""
    assert page.count("<article>") == 5
    assert page.count("<mark ") > 5
    assert 'class="token imputed"' in page
    assert re.search(r"5 documents in \d+\.\d ms on the server, \d+ ms in all · version 1", page)
    assert screenshot.stat().st_size > 20_000


def test_an_answer_can_be_sent_by_its_address(browse):
    page, _, _ = browse("sent", {"q": QUERY, "model": "whole", "top": "2", "languages": "de fr"})
    assert page.count("<article>") == 2
    assert set(re.findall(r'class="badge">(\w+)<', page)) <= {"de", "fr"}


def test_the_page_shows_errors(browse):
    page, _, _ = browse("error", {"q": QUERY, "model": "shard0"})
    assert "has no signature" in page
    assert "<article>" not in page


def test_other_scripts_and_darkness(browse):
    page, console, screenshot = browse(
        "dark", {"q": "日本で一番高い山", "model": "whole"}, "--force-dark-mode"
    )
    assert console == ""
    assert page.count("<article>") == 5
    assert screenshot.stat().st_size > 20_000
