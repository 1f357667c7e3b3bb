"""From an exported model to a pushed version: evaluator, serving validator and Pusher, on real models."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artifacts_on_disk import new_artifact, run_in_container, vertex_name, write_examples
from tfx.components.pusher import executor as pusher
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.types import standard_artifacts

from tfx_pipeline.artifacts import write_document_ids
from tfx_pipeline.components import serving_smoke_test
from tfx_pipeline.components.retrieval_evaluator import RetrievalEvaluatorExecutor
from tfx_pipeline.components.serving_validator import ServingValidatorExecutor
from tfx_pipeline.config import ServingCheckSettings
from tfx_pipeline.data import example_gen
from tfx_pipeline.data.example_gen import document_example
from tfx_pipeline.data.splits import read_all
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.retriever.gate import GateReport
from xtr_tf.retriever.reference_cases import CHECKSUMS_FILE, REFERENCE_FILE
from xtr_tf.training.data.tfrecords import parse_example
from xtr_tf.version import __version__

#: What the gate says of a sound model.
PASSED = GateReport(load_seconds=1.0, cases={}, op_libraries=[], problems=[])


@dataclasses.dataclass(frozen=True)
class Judged:
    """What the evaluator gave for a model."""

    model: Any
    evaluation: Any
    blessing: Any


@pytest.fixture(scope="module")
def data(tiny_corpus: Any, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The documents of the tiny corpus, and the queries that they answer."""
    root = tmp_path_factory.mktemp("data")
    known = {record.id for record in tiny_corpus.documents}
    records = example_gen.read_training_file("atlas/qrels/train.tsv", str(repository / "examples"))
    queries = [record for record in records if parse_example(record, "und").positives[0].id in known]
    documents = [
        document_example(Document(record.id, record.text, record.title, record.language))
        for record in tiny_corpus.documents
    ]
    return {
        "examples": [write_examples(root / "examples", {"train": queries[:1], "eval": queries})],
        "corpus": [write_examples(root / "corpus", {"corpus": documents})],
    }


@pytest.fixture(scope="module")
def exported(exact_export: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The exported tiny corpus, as RetrieverExporter leaves it."""
    model = new_artifact(standard_artifacts.Model, tmp_path_factory.mktemp("model") / "artifact")
    shutil.copytree(exact_export, Path(model.uri, "Format-Serving"))
    return model


@pytest.fixture(scope="module")
def judge(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Judged]:
    def run(
        model: Any, baseline: Any = None, infra: Any = None, corpus: Any = None, **thresholds: float
    ) -> Judged:
        root = tmp_path_factory.mktemp("judged")
        evaluation = new_artifact(standard_artifacts.ModelEvaluation, root / "evaluation")
        blessing = new_artifact(standard_artifacts.ModelBlessing, root / "blessing")
        inputs = data | {"model": [model], "baseline_model": [baseline] if baseline else []}
        inputs |= {"infra_blessing": [infra]} if infra else {}
        inputs |= {"corpus": [corpus]} if corpus else {}
        RetrievalEvaluatorExecutor().Do(
            inputs,
            {"evaluation": [evaluation], "blessing": [blessing]},
            {"thresholds": json.dumps(thresholds | {"exact_queries": 0})},
        )
        return Judged(model, evaluation, blessing)

    return run


def validate(model: Any, folder: Path, **parameters: float) -> Any:
    blessing = new_artifact(standard_artifacts.InfraBlessing, folder)
    ServingValidatorExecutor().Do(
        {"model": [model]}, {"blessing": [blessing]}, {"parameters": json.dumps(parameters)}
    )
    return blessing


@pytest.fixture(scope="module")
def good(exported: Any, judge: Any) -> Judged:
    return judge(exported, min_average=0.1)


@pytest.fixture(scope="module")
def sabotaged(good: Judged, judge: Any, tiny_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    model = copy_of(good.model, tmp_path_factory.mktemp("sabotaged") / "model")
    exchange_documents(Path(model.uri, "Format-Serving"), tiny_corpus.documents[0].id.encode())
    return judge(model, good.model)


def exchange_documents(directory: Path, first: bytes) -> None:
    """Gives every document in a model the id of another one, so that all answers are wrong."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(directory / "variables" / "variables"))
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    (ids,) = (name for name, own in tensors.items() if np.ndim(own) == 1 and np.size(own) and own[0] == first)
    tensors[ids] = np.roll(tensors[ids], 7)
    for file in (directory / "variables").iterdir():
        file.unlink()
    tf.raw_ops.SaveV2(
        prefix=str(directory / "variables" / "variables"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(own) for own in tensors.values()],
    )


@pytest.fixture(scope="module")
def served(good: Judged, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The blessing of a model that serves well."""
    return validate(good.model, tmp_path_factory.mktemp("served") / "blessing")


@pytest.fixture(scope="module")
def refused(good: Judged, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The blessing of a model that no server can load."""
    root = tmp_path_factory.mktemp("refused")
    model = copy_of(good.model, root / "model")
    Path(model.uri, "Format-Serving", "saved_model.pb").write_bytes(b"\xff")
    Path(model.uri, "Format-Serving", CHECKSUMS_FILE).unlink()
    return validate(model, root / "blessing")


def copy_of(model: Any, folder: Path) -> Any:
    copy = new_artifact(standard_artifacts.Model, folder)
    shutil.copytree(model.uri, folder, dirs_exist_ok=True)
    return copy


def reasons(blessing: Any) -> str:
    told = blessing.get_string_custom_property("reasons")
    assert Path(blessing.uri, "reasons.txt").read_text() == f"{told}\n"
    return told


def test_a_good_model_is_blessed_and_its_metrics_recorded(good: Judged) -> None:
    assert good.blessing.get_int_custom_property("blessed") == 1
    assert good.blessing.get_int_custom_property("current_model_id") == good.model.id
    assert Path(good.blessing.uri, "BLESSED").is_file()
    assert "of BM25; the weakest is" in reasons(good.blessing)
    assert {path.name for path in Path(good.evaluation.uri).iterdir()} >= {
        "report.html",
        "report.md",
        "report.json",
    }
    report = json.loads(Path(good.evaluation.uri, "report.json").read_text())
    assert report["settings"]["k_prime"] == 100
    values = [row["figures"]["xtr"]["nDCG@10"]["value"] for row in report["languages"]]
    average = good.evaluation.get_float_custom_property("average_xtr")
    assert len(values) > 5
    assert average == pytest.approx(sum(values) / len(values))
    assert good.evaluation.get_float_custom_property("average_bm25") > 0
    language = report["languages"][0]["name"]
    assert good.evaluation.get_float_custom_property(f"language_{language}") == values[0]
    assert good.evaluation.get_string_custom_property("code").startswith(__version__)


def test_a_blessing_on_vertex_names_its_model(good: Judged, data: dict[str, Any], tmp_path: Path) -> None:
    """Vertex's name for it, by which later runs find the latest blessed model."""
    outputs = {
        "evaluation": [new_artifact(standard_artifacts.ModelEvaluation, tmp_path / "evaluation")],
        "blessing": [new_artifact(standard_artifacts.ModelBlessing, tmp_path / "blessing")],
    }
    few = json.dumps({"max_queries": 4, "bm25": False, "exact_queries": 0})
    inputs = data | {"model": [good.model], "baseline_model": []}
    recorded = run_in_container(RetrievalEvaluatorExecutor, inputs, outputs, {"thresholds": few}, tmp_path)
    assert recorded["blessing"]["blessed"] == 1
    assert recorded["blessing"]["current_model_id"] == vertex_name(good.model)
    assert recorded["evaluation"]["metric"] == "nDCG@10"


def test_a_worse_model_is_not_blessed_and_the_reasons_name_the_languages(
    good: Judged, sabotaged: Judged
) -> None:
    assert sabotaged.blessing.get_int_custom_property("blessed") == 0
    assert Path(sabotaged.blessing.uri, "NOT_BLESSED").is_file()
    assert sabotaged.blessing.get_int_custom_property("baseline_model_id") == good.model.id
    told = reasons(sabotaged.blessing)
    assert "nDCG@10 fell in the average over languages by" in told
    assert (
        len(
            re.findall(r"nDCG@10 fell in \w\w by 0\.\d+ from the latest blessed model's \(95% interval", told)
        )
        > 3
    )
    report = json.loads(Path(sabotaged.evaluation.uri, "report.json").read_text())
    assert report["baseline"]["name"] == "latest blessed model"


def test_models_are_compared_on_the_documents_that_both_have(
    good: Judged, judge: Any, tiny_corpus: Any, tmp_path: Path
) -> None:
    """The earlier model had half of the documents, so each of its figures is better or equal."""
    known = [record.id for record in tiny_corpus.documents]
    before = copy_of(good.model, tmp_path / "before")
    write_document_ids(Path(before.uri), known[::2])
    judged = judge(good.model, before, bm25=False)
    assert judged.blessing.get_int_custom_property("blessed") == 1
    report = json.loads(Path(judged.evaluation.uri, "report.json").read_text())
    (comparison,) = report["comparisons"]
    assert comparison["shared_documents"] == len(known[::2])
    assert all(row["value"] == 0 for row in comparison["languages"])


def test_a_model_is_not_blessed_if_a_language_lost_its_documents(
    good: Judged, judge: Any, data: dict[str, Any], tmp_path: Path
) -> None:
    rest = [own for own in read_all(data["corpus"][0]) if example_gen.parse_document(own).language != "sw"]
    corpus = write_examples(tmp_path / "corpus", {"corpus": rest})
    judged = judge(good.model, bm25=False, corpus=corpus)
    assert judged.blessing.get_int_custom_property("blessed") == 0
    told = reasons(judged.blessing)
    assert re.search(r"\d+ of \d+ judgements were left out: their documents are not in the corpus", told)
    assert "No query in sw has a document left in the corpus." in told


def test_a_model_that_cannot_be_served_is_not_blessed(
    good: Judged, judge: Any, served: Any, refused: Any
) -> None:
    few = {"max_queries": 4, "bm25": False}
    judged = judge(good.model, infra=refused, **few)
    assert judged.blessing.get_int_custom_property("blessed") == 0
    assert reasons(refused) in reasons(judged.blessing)
    assert judge(good.model, infra=served, **few).blessing.get_int_custom_property("blessed") == 1


def test_only_a_model_with_both_blessings_is_pushed(
    good: Judged, sabotaged: Judged, served: Any, refused: Any, tmp_path: Path
) -> None:
    serving = tmp_path / "serving"
    assert push(good, refused, serving, tmp_path / "refused") == 0
    assert not serving.exists()
    assert push(good, served, serving, tmp_path / "good") == 1
    before = {path: path.stat().st_mtime_ns for path in serving.rglob("*")}
    assert any(path.name == "saved_model.pb" for path in before)
    # What serves well but finds the wrong documents leaves production as it was.
    assert push(sabotaged, served, serving, tmp_path / "sabotaged") == 0
    assert {path: path.stat().st_mtime_ns for path in serving.rglob("*")} == before


def push(judged: Judged, infra_blessing: Any, serving: Path, folder: Path) -> int:
    """Runs TFX's own Pusher and returns whether it pushed."""
    pushed = new_artifact(standard_artifacts.PushedModel, folder)
    pusher.Executor().Do(
        {
            "model": [judged.model],
            "model_blessing": [judged.blessing],
            "infra_blessing": [infra_blessing],
        },
        {"pushed_model": [pushed]},
        {
            "push_destination": json.dumps({"filesystem": {"base_directory": str(serving)}}),
            "custom_config": "null",
        },
    )
    return pushed.get_int_custom_property("pushed")


def test_the_resolver_finds_the_latest_blessed_model(good: Judged, sabotaged: Judged) -> None:
    found = LatestBlessedModelStrategy().resolve_artifacts(
        None,
        {
            "model": [good.model, sabotaged.model],
            "model_blessing": [good.blessing, sabotaged.blessing],
        },
    )
    assert found is not None
    assert found["model"] == [good.model]


def test_a_model_that_serves_correctly_is_blessed(served: Any) -> None:
    assert served.get_int_custom_property("blessed") == 1
    assert Path(served.uri, "INFRA_BLESSED").is_file()
    trial = json.loads(Path(served.uri, "trial.json").read_text())
    assert trial["problems"] == []
    assert trial["answers"] >= 9
    assert served.get_float_custom_property("latency_ms") == trial["latency_ms"] > 0
    assert "answers over gRPC; 95% of queries took at most" in reasons(served)


def test_a_model_that_does_not_load_is_refused(refused: Any) -> None:
    assert refused.get_int_custom_property("blessed") == 0
    assert Path(refused.uri, "INFRA_NOT_BLESSED").is_file()
    assert "Format-Serving" in reasons(refused)


@pytest.mark.slow
def test_a_slow_model_is_refused(good: Judged, tmp_path: Path) -> None:
    blessing = validate(good.model, tmp_path, latency_ms=0.001, rounds=1)
    assert blessing.get_int_custom_property("blessed") == 0
    assert "ms, and 0 ms are allowed" in reasons(blessing)


@pytest.mark.slow
def test_a_model_with_wrong_answers_is_refused(good: Judged, tmp_path: Path) -> None:
    model = copy_of(good.model, tmp_path / "model")
    change_answer(Path(model.uri, "Format-Serving"), "serving_default", "scores", 0.5)
    blessing = validate(model, tmp_path / "blessing")
    assert blessing.get_int_custom_property("blessed") == 0
    assert "`serving_default`: `scores` differs in 1 of" in reasons(blessing)


@pytest.mark.slow
def test_answers_are_compared_over_the_wire(good: Judged, tmp_path: Path) -> None:
    """The server's answers also reveal what the gate would catch in a fresh process."""
    directory = Path(copy_of(good.model, tmp_path / "model").uri, "Format-Serving")
    change_answer(directory, "search", "document_ids", "elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving_smoke_test, "verify_model", lambda *_: PASSED)
        trial = serving_smoke_test.run_smoke_test(directory, ServingCheckSettings())
    assert [problem for problem in trial.problems if "`search` over gRPC: query 0 finds other" in problem]
    assert trial.latency_ms is None


def change_answer(directory: Path, signature: str, output: str, value: Any) -> None:
    """Changes the first value of what the exporter is said to have answered, as if it had written it."""
    reference = json.loads((directory / REFERENCE_FILE).read_text())
    case = next(case for case in reference["cases"] if case["signature"] == signature)
    case["outputs"][output]["values"][0] = value
    (directory / REFERENCE_FILE).write_text(json.dumps(reference))
    (directory / CHECKSUMS_FILE).unlink()


def test_missing_development_queries_are_an_input_error(
    good: Judged, data: dict[str, Any], tmp_path: Path
) -> None:
    empty = write_examples(tmp_path / "examples", {"train": [], "eval": []})
    outputs = {
        "evaluation": [new_artifact(standard_artifacts.ModelEvaluation, tmp_path / "evaluation")],
        "blessing": [new_artifact(standard_artifacts.ModelBlessing, tmp_path / "blessing")],
    }
    inputs = data | {"examples": [empty], "model": [good.model]}
    with pytest.raises(InputError, match="queries of the split `eval`, whose positives need ids"):
        RetrievalEvaluatorExecutor().Do(inputs, outputs, {"thresholds": "{}"})
