"""The documentation site builds without a warning, and its pages load nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        # Not --quiet: what is not logged is not counted, and --strict would let it pass.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=repository,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return out


def test_every_page_is_there(site: Path, repository: Path) -> None:
    for page in (repository / "docs").rglob("*.md"):
        assert (site / page.relative_to(repository / "docs")).with_suffix(".html").is_file(), page


def test_every_page_is_in_the_navigation(repository: Path) -> None:
    named = re.findall(r": ([\w/-]+\.md)$", (repository / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [str(page.relative_to(repository / "docs")) for page in (repository / "docs").rglob("*.md")]
    assert sorted(named) == sorted(pages)


def test_generated_pages_have_every_command_key_and_metric(site: Path) -> None:
    commands, run, pipeline, metrics = (
        (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        for name in ("command-line", "run-yaml", "pipeline-yaml", "metrics")
    )
    assert "<code>xtr-tf pipeline rollback</code>" in commands
    assert "<code>--partition-timeout-ms</code>" in commands
    assert "<code>training.gradient_cache_chunk</code>" in run
    assert "<code>data.train[].teacher_scores</code>" in run
    assert "<code>run.training.steps</code>" in pipeline
    assert "<code>vertex.dataflow.max_workers</code>" in pipeline
    assert "<code>xtr_serving_requests_total</code>" in metrics
    left = re.compile(r"(?:<|&lt;)!-- (?:commands|settings|metrics|include)\b")
    for page in site.rglob("*.html"):
        assert not left.search(page.read_text(encoding="utf-8")), page


def test_the_reference_has_what_docstrings_say(site: Path) -> None:
    page = (site / "reference" / "search.html").read_text(encoding="utf-8")
    assert "Finds the <code>k_prime</code> document tokens with the largest inner product" in page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)")
    for page in site.rglob("*.html"):
        assert loads.findall(page.read_text(encoding="utf-8")) == [], page
