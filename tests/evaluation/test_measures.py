"""Runs, answers and metrics: what is given to ir_measures, and what comes back."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.metrics import METRICS, contains_answer, judge_by_answers, measure, metrics_for
from xtr_tf.evaluation.run import Run

JUDGEMENTS = {"q1": {"a": 2, "b": 0, "c": 1}, "q2": {"a": 1}, "q3": {"z": 1}}
RUN = Run("system", {"q1": (["b", "a", "x", "c"], [4, 3, 2, 1]), "q2": (["x", "y", "a"], [3, 2, 1])})


def test_metrics_of_a_worked_example() -> None:
    values = measure(RUN, JUDGEMENTS, ["q1", "q2", "q3"], list(METRICS))
    gain = 2 / math.log2(3) + 1 / math.log2(5)
    assert values["nDCG@10"] == pytest.approx([gain / (2 + 1 / math.log2(3)), 1 / math.log2(4), 0])
    assert values["MRR@10"] == pytest.approx([1 / 2, 1 / 3, 0])
    assert values["Recall@100"] == pytest.approx([1, 1, 0])
    assert values["MAP"] == pytest.approx([(1 / 2 + 2 / 4) / 2, 1 / 3, 0])
    assert values["Success@5"] == pytest.approx([1, 1, 0])
    assert values["Judged@10"] == pytest.approx([3 / 4, 1 / 3, 0])


def test_metrics_agree_with_trec_eval_on_a_run_with_ties() -> None:
    generator = np.random.default_rng(0)
    documents = [f"d{number}" for number in range(200)]
    queries = [f"q{number}" for number in range(600)]  # more than are given to ir_measures at once
    grades = {
        query: {document: int(generator.integers(3)) for document in generator.choice(documents, 20)}
        for query in queries
    }
    rankings = {
        query: (generator.permutation(documents)[:150].tolist(), -np.sort(-generator.integers(8, size=150)))
        for query in queries
    }
    run = Run("ties", rankings)
    values = measure(run, grades, queries, ["nDCG@10", "Recall@100", "MAP", "Success@5"])
    # Ranks instead of scores: what trec_eval would say if it could not see the ties.
    by_rank = {
        query: {d: 1.0 / (r + 1) for r, d in enumerate(found)} for query, (found, _) in rankings.items()
    }
    names = {"nDCG@10": "ndcg_cut_10", "Recall@100": "recall_100", "MAP": "map", "Success@5": "success_5"}
    expected = pytrec_eval.RelevanceEvaluator(grades, set(names.values())).evaluate(by_rank)
    for name, trec_name in names.items():
        assert values[name] == pytest.approx([expected[query][trec_name] for query in queries]), name


def test_metrics_that_look_further_than_the_run_are_left_out() -> None:
    assert "Recall@1000" not in metrics_for(by_answers=False, depth=100)
    assert "Recall@1000" in metrics_for(by_answers=False, depth=1000)
    assert metrics_for(by_answers=False, depth=10) == ("nDCG@10", "MRR@10", "Success@5", "MAP", "Judged@10")
    assert metrics_for(by_answers=True, depth=100) == ("Top-20", "Top-100")
    assert metrics_for(by_answers=True, depth=20) == ("Top-20",)


def test_scores_of_a_run_decrease_strictly() -> None:
    run = Run("ties", {"q": (["a", "b", "c", "d"], [1.0, 1.0, 1.0, 0.5])})
    scores = run.scores("q")
    assert (np.diff(scores) < 0).all()
    assert scores == pytest.approx([1, 1, 1, 0.5], abs=1e-6)
    assert run.documents("q") == ["a", "b", "c", "d"]
    for scores_given in ([0.5, 1.0], [float("nan")], [float("inf")]):
        with pytest.raises(InputError, match="finite and never rise"):
            Run("wrong", {"q": (["a", "b"][: len(scores_given)], scores_given)})


def test_run_from_arrays_and_as_a_trec_file(tmp_path: Path) -> None:
    ordinals = np.array([[1, 0, -1], [-1, -1, -1]])
    scores = np.array([[0.5, 0.25, -np.inf], [-np.inf] * 3])
    run = Run.from_arrays("my system", ["q1", "q2"], ["a", "b"], ordinals, scores)
    assert list(run) == ["q1"]
    assert "q2" not in run
    assert run.documents("q2") == []
    run.write(tmp_path / "run.trec.gz")
    assert gzip.decompress((tmp_path / "run.trec.gz").read_bytes()).decode().splitlines() == [
        "q1 Q0 b 1 0.5 my_system",
        "q1 Q0 a 2 0.25 my_system",
    ]


def test_own_document_is_taken_out() -> None:
    run = Run("system", {"a": (["x", "a", "y"], [3, 2, 1]), "b": (["a"], [1])}).without({"a": "a", "b": "b"})
    assert run.documents("a") == ["x", "y"]
    assert run.documents("b") == ["a"]


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("He was born in New York City.", ["new york"], True),
        ("Yorkshire is in England", ["York"], False),
        ("It cost $1,000 then", ["$1,000"], True),
        ("It cost $1 000 then", ["$1,000"], False),
        ("the cafe\u0301 opened", ["caf\u00e9"], True),
        ("nothing", [" ", ""], False),
        ("प्रश्न का उत्तर", ["उत्तर"], True),
        ("two three", ["one", "three"], True),
    ],
)
def test_answers_are_found_as_whole_words(text: str, answers: list[str], found: bool) -> None:
    assert contains_answer(text, answers) is found


def test_top_k_accuracy_is_success_under_judgements_by_answer() -> None:
    corpus = [Document(f"d{number}", "Oslo is here" if number == 30 else "nothing") for number in range(40)]
    queries = (Query("q1", "where?", answers=("oslo",)), Query("q2", "what?", answers=("Bergen",)))
    dataset = Dataset("qa", queries, {}, corpus, metric="Top-20")
    found = [f"d{number}" for number in range(40)]
    run = Run("system", {"q1": (found, np.arange(40)[::-1]), "q2": (found, np.arange(40)[::-1])})
    grades = judge_by_answers(dataset, [run])
    assert sum(grades["q1"].values()) == 1
    assert sum(grades["q2"].values()) == 0
    values = measure(run, grades, ["q1", "q2"], ["Top-20", "Top-100"])
    assert values["Top-20"].tolist() == [0, 0]
    assert values["Top-100"].tolist() == [1, 0]


def test_unknown_metric_is_refused() -> None:
    with pytest.raises(InputError, match="A metric is one of"):
        measure(RUN, JUDGEMENTS, ["q1"], ["F1"])
