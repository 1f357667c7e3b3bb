"""Averages, languages and comparisons, from values of queries that are known."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.evaluation.results import DataCaveats, DatasetResult, ModelResult, count_caveats
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.summary import ALL_DATASETS, compare, summarise

NOTHING = DataCaveats(0, 0, 0, 0, {}, 0, {}, {})


def result(
    name: str,
    values: dict[str, list[float]],
    languages: list[str] | None = None,
    groups: list[str] | None = None,
    **dataset: object,
) -> DatasetResult:
    count = len(next(iter(values.values())))
    languages, groups = languages or ["en"] * count, groups or [""] * count
    queries = tuple(
        Query(f"q{place}", "text", language, group)
        for place, (language, group) in enumerate(zip(languages, groups, strict=True))
    )
    judgements = {query.id: {"d": 1} for query in queries}
    measured = {system: {"nDCG@10": np.array(own)} for system, own in values.items()}
    return DatasetResult(
        Dataset(name, queries, judgements, [], **dataset),  # type: ignore[arg-type]
        1,
        100,
        measured,
        NOTHING,
        ModelResult(runs={}),
    )


def test_averages_are_means_of_means_within_collections() -> None:
    beir = {"collection": "BEIR"}
    results = [
        result("a", {"xtr": [1.0]}, **beir),
        result("b", {"xtr": [0.0, 0.5, 0.4, 0.3]}, **beir),
        result("msmarco", {"xtr": [0.9, 0.9]}, **beir, in_average=False),
        result("alone", {"xtr": [0.2]}),
    ]
    summary = summarise(results)
    averages = {row.name: row.figures["xtr", "nDCG@10"].value for row in summary.averages}
    assert averages == pytest.approx({"BEIR": (1 + 0.3) / 2, ALL_DATASETS: (1 + 0.3 + 0.9 + 0.2) / 4})
    assert [row.name for row in summary.datasets] == ["a", "b", "msmarco", "alone"]
    assert [row.queries for row in summary.averages] == [5, 8]


def test_a_collection_that_is_everything_is_averaged_once() -> None:
    results = [result(name, {"xtr": [0.5]}, collection="xquad_r") for name in ("de", "zh")]
    assert [row.name for row in summarise(results).averages] == ["xquad_r"]
    assert summarise(results[:1]).averages == []


def test_relations_have_the_same_weight() -> None:
    values = {"xtr": [1.0, 1.0, 1.0, 0.0]}
    [row] = summarise([result("eq", values, groups=["P17", "P17", "P17", "P19"])]).datasets
    assert row.figures["xtr", "nDCG@10"].value == pytest.approx(0.5)


def test_languages_across_datasets() -> None:
    results = [
        result("mixed", {"xtr": [0.0, 0.2, 1.0]}, languages=["de", "de", "sw"]),
        result("german", {"xtr": [0.7]}, languages=["de"]),
    ]
    rows = {row.name: row for row in summarise(results).languages}
    assert rows["de"].figures["xtr", "nDCG@10"].value == pytest.approx((0.1 + 0.7) / 2)
    assert rows["sw"].figures["xtr", "nDCG@10"].value == 1
    assert (rows["de"].queries, len(rows["de"].cells)) == (3, 2)


def test_intervals_hold_the_value_and_shrink_with_queries() -> None:
    generator = np.random.default_rng(0)
    widths = []
    for count in (30, 3000):
        [row] = summarise([result("set", {"xtr": generator.random(count).tolist()})]).datasets
        figure = row.figures["xtr", "nDCG@10"]
        assert figure.low < figure.value < figure.high
        widths.append(figure.high - figure.low)
    assert widths[0] > 5 * widths[1]


def test_comparison_finds_what_is_there_and_nothing_else() -> None:
    generator = np.random.default_rng(1)
    base = generator.random(400) * 0.8
    noise = generator.normal(0, 0.1, 400)
    results = [
        result("better", {"xtr": (base + 0.1 + noise / 10).tolist(), "bm25": base.tolist()}),
        result("same", {"xtr": (base + noise - noise.mean()).tolist(), "bm25": base.tolist()}),
        result("worse", {"xtr": (base - 0.05).tolist(), "bm25": base.tolist()}),
        result("absent", {"xtr": base.tolist()}),
    ]
    differences = compare(summarise(results).datasets, "xtr", "bm25")
    assert [own.name for own in differences] == ["better", "same", "worse"]
    assert [own.verdict for own in differences] == ["better", "no clear difference", "worse"]
    assert [own.value for own in differences] == pytest.approx([0.1, 0.0, -0.05], abs=0.01)
    assert differences[0].low < differences[0].value < differences[0].high
    assert differences[0].adjusted_p >= differences[0].p


def test_caveats_count_what_is_missing() -> None:
    queries = (Query("q1", "a"), Query("q2", "b"), Query("q3", "c"))
    judgements = {"q1": {"d1": 1, "gone": 2, "irrelevant": 0}, "q2": {"gone": 1}, "q3": {"d2": 0}}
    dataset = Dataset(
        "set", queries, judgements, [], unjudged_queries=4, unknown_queries=("a", "b", "c", "d", "e")
    )
    runs = {"xtr": Run("xtr", {"q1": (["d1", "elsewhere"], [2, 1])})}
    caveats = count_caveats(dataset, 10, ["d1", "d2"], runs)
    assert caveats == DataCaveats(
        queries_not_sampled=7,
        queries_without_judgements=4,
        judged_queries_without_text=5,
        queries_without_relevant_documents=2,
        records_left_out={},
        relevant_documents_missing=1,
        empty_results={"xtr": 2},
        documents_not_in_corpus={"xtr": 1},
    )
