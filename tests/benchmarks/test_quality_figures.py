"""Quality per millisecond: how points become a table and a line."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def quality(benchmark_module):
    return benchmark_module("quality", "points")


@pytest.fixture(scope="module")
def run(benchmark_module, repository):
    with pytest.MonkeyPatch.context() as patch:
        # Scripts import each other by the name of their file.
        patch.syspath_prepend(repository / "benchmarks" / "quality")
        yield benchmark_module("quality", "run")


@pytest.fixture
def points(quality):
    figures = {
        quality.REFERENCE: [(70.0, 4.0), (90.0, 2.0)],
        "BM25, n-grams": [(65.0, 1.0), (91.0, 1.0)],
        quality.ONE_VECTOR["minilm"]: [(64.0, 8.0), (77.0, 8.0)],
    }
    return [
        quality.Point(system, dataset, *figure)
        for system, own in figures.items()
        for dataset, figure in zip(("scifact", "squad_dev"), own, strict=True)
    ]


def test_one_row_per_system(quality, points):
    assert quality.table(points).splitlines() == [
        "| | scifact | ms | squad_dev | ms |",
        "|---|---:|---:|---:|---:|",
        "| scann, k' 1,000 | 70.0 | 4.0 | 90.0 | 2.0 |",
        "| BM25, n-grams | 65.0 | 1.0 | 91.0 | 1.0 |",
        "| MiniLM, one vector | 64.0 | 8.0 | 77.0 | 8.0 |",
    ]


def test_the_line_counts_sets_and_compares_times(quality, points):
    assert quality.result(points) == (
        "RESULT bench-quality above_bm25=1 above_minilm=2 ms_ratio_bm25=3.00 ms_ratio_minilm=0.38"
    )


def test_without_the_other_model_its_ratio_is_unknown(quality, points):
    ours = [point for point in points if point.system != quality.ONE_VECTOR["minilm"]]
    assert quality.result(ours).endswith("above_minilm=0 ms_ratio_bm25=3.00 ms_ratio_minilm=nan")


def test_every_request_says_its_k_prime(quality, run):
    for kind in run.KINDS:
        assert all("k_prime" in parameters for _, parameters in run.requests(kind))
    assert quality.REFERENCE in dict(run.requests("scann"))


def test_the_picture_names_every_other_system(quality, run, points, tmp_path):
    run.draw(points, tmp_path / "quality.svg")
    drawn = (tmp_path / "quality.svg").read_text()
    assert "<!-- BM25, n-grams -->" in drawn
    assert "<!-- MiniLM, one vector -->" in drawn
    assert "<!-- scann, k' 1,000 -->" not in drawn
