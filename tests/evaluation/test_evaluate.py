"""Whole evaluations of a small random model on the example, by the library and by the command."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from xtr_tf.cli.app import app
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.loading import load_datasets
from xtr_tf.errors import InputError
from xtr_tf.evaluation.alpha import ALPHAS, best_alpha, measure_alphas, over_languages
from xtr_tf.evaluation.encoder_model import EncoderModel
from xtr_tf.evaluation.evaluate import evaluate_model
from xtr_tf.evaluation.evaluator import EvaluationSettings
from xtr_tf.runtime import SavedModelSession

SETTINGS = EvaluationSettings(k_prime=100, max_queries=40, analysis_queries=10, exact_queries=10, fusion=True)


@pytest.fixture(scope="module")
def report(
    encoder_directory: Path, atlas: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("report") / "report"
    return out, evaluate_model(encoder_directory, [atlas], out, SETTINGS)


def test_every_system_is_measured_on_the_same_queries(report: Any, atlas: Dataset) -> None:
    out, content = report
    systems = [system["key"] for system in content["systems"]]
    assert systems == ["xtr", "colbert", "bm25", "bm25_words", "bm25_ngrams", "fusion"]
    assert json.loads((out / "report.json").read_text()) == json.loads(json.dumps(content))
    values = json.loads((out / "queries" / "atlas.json").read_text())
    sampled = {query.id for query in atlas.sample(40).queries}
    assert set(values["queries"]) == sampled
    for system in systems:
        assert {len(own) for own in values["values"][system].values()} == {40}
        figure = content["datasets"][0]["figures"][system]["nDCG@10"]
        assert figure["value"] == pytest.approx(np.mean(values["values"][system]["nDCG@10"]), abs=1e-5)
        assert figure["low"] <= figure["value"] <= figure["high"]
    pairs = [(own["system"], own["other"]) for own in content["comparisons"]]
    assert pairs == [("xtr", "bm25"), ("xtr", "colbert"), ("fusion", "bm25_ngrams"), ("fusion", "xtr")]
    assert content["datasets"][0]["honesty"]["queries_not_sampled"] == 140
    assert content["datasets"][0]["honesty"]["queries_without_judgements"] == 720


def test_run_files_give_the_same_figures(report: Any, atlas: Dataset) -> None:
    import ir_measures

    out, content = report
    text = gzip.decompress((out / "runs" / "atlas.xtr.trec.gz").read_bytes()).decode()
    run = list(ir_measures.read_trec_run(text))
    grades = {query.id: dict(atlas.judgements[query.id]) for query in atlas.sample(40).queries}
    found = ir_measures.calc_aggregate([ir_measures.nDCG @ 10, ir_measures.R @ 100], grades, run)
    figures = content["datasets"][0]["figures"]["xtr"]
    assert found[ir_measures.nDCG @ 10] == pytest.approx(figures["nDCG@10"]["value"])
    assert found[ir_measures.R @ 100] == pytest.approx(figures["Recall@100"]["value"])


def test_bm25_suits_each_language(report: Any, atlas: Dataset) -> None:
    out, _ = report
    content = json.loads((out / "queries" / "atlas.json").read_text())
    for place, language in enumerate(content["languages"]):
        suited = "bm25_ngrams" if language in ("ja", "zh") else "bm25_words"
        values = content["values"]
        assert values["bm25"]["nDCG@10"][place] == values[suited]["nDCG@10"][place]


def test_a_length_penalty_makes_an_encoder_prefer_short_documents(
    encoder_directory: Path, atlas: Dataset
) -> None:
    documents, sample = list(atlas.corpus), atlas.sample(5)
    length_of = {document.id: len(document.full_text) for document in documents}
    means = []
    for penalty in (0.0, 0.5):
        settings = EvaluationSettings(length_penalty=penalty, analysis_queries=0, examples=0)
        run = EncoderModel(encoder_directory).evaluate(sample, documents, 10, settings).runs["xtr"]
        found = [key for query in sample.queries for key in run.documents(query.id)]
        means.append(np.mean([length_of[key] for key in found]))
    assert means[1] < means[0]


def test_a_model_does_not_differ_from_itself(
    report: Any, encoder_directory: Path, atlas: Dataset, tmp_path: Path
) -> None:
    earlier, _ = report
    settings = EvaluationSettings(k_prime=100, max_queries=40, analysis_queries=0, bm25=False)
    content = evaluate_model(encoder_directory, [atlas], tmp_path / "new", settings, baseline=earlier)
    comparison = content["comparisons"][0]
    assert comparison["other"] == "baseline"
    assert content["baseline"]["name"] == "encoder"
    for row in (*comparison["datasets"], *comparison["languages"]):
        assert row["value"] == pytest.approx(0, abs=1e-6)
        assert row["verdict"] == "no clear difference"


def test_alpha_is_measured_by_language(exported_directory: Path, atlas: Dataset) -> None:
    sample = atlas.sample(10)
    with SavedModelSession(exported_directory / "1") as session:
        means = measure_alphas(session, sample)
        found = session.run("search", {"query": [query.text for query in sample.queries], "alpha": [0.0]})
    assert sorted(means) == sorted({query.language for query in sample.queries})
    assert all(tuple(own) == ALPHAS for own in means.values())
    of_all = over_languages(means)
    assert of_all[best_alpha(of_all)] == max(of_all.values()) > of_all[0.0], "a random encoder needs BM25"
    # The slow way: nDCG@10 of one language, with documents that answer or do not.
    language = sample.queries[0].language
    values = []
    for query, ids in zip(sample.queries, found["document_ids"], strict=True):
        if query.language == language:
            relevant = {key for key, grade in sample.judgements[query.id].items() if grade > 0}
            gains = [1 / np.log2(rank + 2) for rank in range(10) if ids[rank].decode() in relevant]
            values.append(sum(gains) / sum(1 / np.log2(rank + 2) for rank in range(min(10, len(relevant)))))
    assert means[language][0.0] == pytest.approx(np.mean(values), abs=1e-6)


def test_exported_model_with_another_model_as_baseline(
    exported_directory: Path, encoder_directory: Path, atlas: Dataset, tmp_path: Path
) -> None:
    settings = dataclasses.replace(SETTINGS, fusion=False)
    content = evaluate_model(
        exported_directory, [atlas], tmp_path / "report", settings, baseline=encoder_directory
    )
    [dataset] = content["datasets"]
    assert content["model"]["name"] == "atlas/1"
    assert "colbert" not in dataset["figures"]
    # The export searches exactly and has the same vectors as the encoder's own index.
    assert dataset["figures"]["xtr"]["nDCG@10"]["value"] == pytest.approx(
        dataset["figures"]["baseline"]["nDCG@10"]["value"], abs=0.02
    )
    # It answers by both, and so the comparison with another model is of that.
    assert content["served"] == "fusion"
    assert content["comparisons"][0]["system"] == "fusion"
    fused = evaluate_model(
        encoder_directory, [atlas], tmp_path / "exact", dataclasses.replace(SETTINGS, alpha=0.4)
    )
    assert dataset["figures"]["fusion"]["nDCG@10"]["value"] == pytest.approx(
        fused["datasets"][0]["figures"]["fusion"]["nDCG@10"]["value"], abs=0.02
    )
    check = dataset["exact_check"]
    assert check["queries"] == 10
    assert set(check["metrics"]) == {"index", "exact_xtr", "exact_colbert"}
    assert 0 < check["overlap_at_10"] <= 1
    assert check["cut_documents"] > 0, "the model takes 64 tokens of a document"
    assert "own index" in (tmp_path / "report" / "report.md").read_text()


def test_command_writes_a_report_and_prints_a_table(
    encoder_directory: Path, repository: Path, tmp_path: Path
) -> None:
    arguments = ["evaluate", str(encoder_directory), "--dataset", str(repository / "examples" / "atlas")]
    arguments += ["--out", str(tmp_path / "report"), "--max-queries", "12", "--k-prime", "50"]
    arguments += ["--analysis-queries", "4", "--split", "dev"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "atlas" in result.output
    assert "BM25 n-grams" in result.output
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        *("report.html", "report.json", "report.md", "runs", "queries"),
    }


def test_wrong_paths_leave_nothing_behind(encoder_directory: Path, atlas: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="The directory exists"):
        evaluate_model(encoder_directory, [atlas], tmp_path / "mine")
    with pytest.raises(InputError, match="A model is the directory of an encoder"):
        evaluate_model(tmp_path / "mine", [atlas], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(InputError, match="`alpha` must be above 0"):
        EvaluationSettings(fusion=True, alpha=0.0)


def test_a_depth_that_a_dataset_cannot_be_measured_at_is_refused_at_once(
    encoder_directory: Path, atlas: Dataset, tmp_path: Path
) -> None:
    answered = dataclasses.replace(atlas, name="answered", judgements={}, metric="Top-20")
    told: list[str] = []
    settings = EvaluationSettings(depth=10)
    with pytest.raises(InputError, match="Top-20 of answered needs a depth of at least 20"):
        evaluate_model(encoder_directory, [atlas, answered], tmp_path / "out", settings, progress=told.append)
    assert not told


def test_earlier_report_without_the_dataset_is_refused(
    report: Any, encoder_directory: Path, repository: Path, tmp_path: Path
) -> None:
    earlier, _ = report
    datasets = load_datasets([repository / "examples" / "atlas"], "dev")
    settings = EvaluationSettings(k_prime=50, max_queries=5, analysis_queries=0, bm25=False)
    told: list[str] = []
    with pytest.raises(InputError, match="The earlier report lacks queries"):
        evaluate_model(encoder_directory, datasets, tmp_path / "out", settings, earlier, told.append)
    assert not told
    assert not (tmp_path / "out").exists()
