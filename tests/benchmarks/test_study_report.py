"""How the study's measurements become tables, and where its curves cross."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def report(benchmark_module):
    return benchmark_module("study", "report")


def record(arm: str, step: int, value: float) -> dict:
    columns = dict.fromkeys(("xtr_mrr", "colbert_mrr", "gold_rate", "lexical_rate"), value)
    return {"arm": arm, "step": step, "set": "s", "queries": 2, "documents": 3, "tokens": 4, **columns}


def test_crossings_are_the_steps_at_which_the_order_changes(report):
    ours, theirs = (0.1, 0.3, 0.5, 0.4), (0.2, 0.2, 0.2, 0.6)
    records = [record("xtr", step, value) for step, value in enumerate(ours)]
    records += [record("colbert", step, value) for step, value in enumerate(theirs)]
    assert report.crossings(records, "xtr_mrr", "s") == [1, 3]


def test_steps_of_only_one_arm_are_not_crossings(report):
    records = [record("xtr", 1, 0.1), record("colbert", 1, 0.2), record("xtr", 2, 0.9)]
    assert report.crossings(records, "xtr_mrr", "s") == []


def test_the_report_has_every_checkpoint_and_a_picture(report, tmp_path):
    records = [record("colbert", 250, 0.4), record("untrained", 0, 0.125), record("warm", 250, 0.3)]
    report.write_report(records, tmp_path / "curves")
    rows = [line for line in (tmp_path / "curves.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| untrained", "| warm", "| colbert"]
    assert "0.125" in rows[0]
    assert "<svg" in (tmp_path / "curves.svg").read_text()
