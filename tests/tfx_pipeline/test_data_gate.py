"""The data gate on the example corpus and on data with every defect that it must find."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from artifacts_on_disk import Artifacts, new_artifact, run_in_container, write_examples
from tfx.components.example_validator import executor as example_validator
from tfx.components.statistics_gen import executor as statistics_gen
from tfx.types import standard_artifacts

from tfx_pipeline.artifacts import DataGateArtifact
from tfx_pipeline.components.data_gate import DataGateExecutor
from tfx_pipeline.data import example_gen
from tfx_pipeline.data.example_gen import defect_example
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.tfrecords import parse_example, serialize_example


@dataclasses.dataclass(frozen=True)
class Records:
    """Serialised examples of the embedded data."""

    train: list[bytes]
    eval: list[bytes]
    corpus: list[bytes]


@pytest.fixture(scope="module")
def records(repository: Path) -> Records:
    base = str(repository / "examples")
    return Records(
        list(example_gen.read_training_file("atlas/qrels/train.tsv", base)),
        list(example_gen.read_training_file("atlas/qrels/dev.tsv", base)),
        list(example_gen.read_corpus_file("atlas/corpus.jsonl", base)),
    )


@pytest.fixture(scope="module")
def validated(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any], dict[str, Any]], Artifacts]:
    """Makes the inputs of the gate from records, with TFX's own executors."""

    def validate(training: dict[str, Any], corpus: dict[str, Any]) -> Artifacts:
        root = tmp_path_factory.mktemp("validated")
        inputs: Artifacts = {}
        for kind, splits in (("training", training), ("corpus", corpus)):
            examples = write_examples(root / kind / "examples", splits)
            statistics = new_artifact(standard_artifacts.ExampleStatistics, root / kind / "statistics")
            statistics_gen.Executor(_beam_context(root)).Do(
                {"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"}
            )
            schema = new_artifact(standard_artifacts.Schema, root / kind / "schema")
            text = (repository / "tfx_pipeline" / "schemas" / kind / "schema.pbtxt").read_text()
            Path(schema.uri, "schema.pbtxt").write_text(text)
            anomalies = new_artifact(standard_artifacts.ExampleAnomalies, root / kind / "anomalies")
            example_validator.Executor().Do(
                {"statistics": [statistics], "schema": [schema]}, {"anomalies": [anomalies]}, {}
            )
            inputs |= {
                f"{kind}_examples": [examples],
                f"{kind}_statistics": [statistics],
                f"{kind}_schema": [schema],
                f"{kind}_anomalies": [anomalies],
            }
        return inputs

    return validate


def _beam_context(root: Path) -> Any:
    from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

    return BaseBeamExecutor.Context(beam_pipeline_args=[], tmp_dir=str(root / "tmp"), unique_id="1")


def run_gate(inputs: Artifacts, folder: Path, splits: tuple[str, ...] = (), **thresholds: float) -> Any:
    gate = new_artifact(DataGateArtifact, folder)
    properties = {"thresholds": json.dumps(thresholds), "splits": json.dumps(splits)}
    DataGateExecutor(_beam_context(folder)).Do(inputs, {"gate": [gate]}, properties)
    return gate


@pytest.fixture(scope="module")
def good(validated: Any, records: Records) -> Artifacts:
    return validated({"train": records.train, "eval": records.eval}, {"corpus": records.corpus})


@pytest.fixture(scope="module")
def passed(good: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_gate(good, tmp_path_factory.mktemp("gate"))


def test_good_data_passes_and_its_statistics_are_kept(passed: Any) -> None:
    names = {path.name for path in Path(passed.uri).iterdir()}
    assert {"training-train.pb", "training-eval.pb", "corpus-corpus.pb"} <= names
    languages = json.loads(passed.get_string_custom_property("languages"))
    assert languages["training/train"]["sw"] == 48
    assert sum(languages["corpus/corpus"].values()) == 300


def test_identical_data_has_no_drift(good: Artifacts, passed: Any, tmp_path: Path) -> None:
    run_gate(good | {"previous": [passed]}, tmp_path, training_drift=0.001, corpus_drift=0.001)


def test_the_gate_runs_in_a_vertex_container(good: Artifacts, passed: Any, tmp_path: Path) -> None:
    gate = new_artifact(DataGateArtifact, tmp_path / "gate")
    inputs = good | {"previous": [passed]}
    recorded = run_in_container(DataGateExecutor, inputs, {"gate": [gate]}, {"thresholds": "{}"}, tmp_path)
    assert recorded["gate"]["languages"] == passed.get_string_custom_property("languages")
    assert Path(gate.uri, "corpus-corpus.pb").is_file()


@pytest.fixture(scope="module")
def bad(validated: Any, records: Records) -> Artifacts:
    """Half of the English examples twice over, no Swahili, and one each of the other defects."""
    train = [record for record in records.train if parse_example(record, "und").language != "sw"]
    english = [record for record in records.train if parse_example(record, "und").language == "en"]
    known = Document("en-sahara", "The Sahara is a desert.")
    defects = [
        serialize_example(TrainingExample("empty", " ", (known,), (), "en")),
        serialize_example(TrainingExample("lonely", "what?", (), (), "en")),
        serialize_example(TrainingExample("lost", "where?", (Document("nowhere", "text"),), (), "en")),
        serialize_example(TrainingExample("nameless", "who?", (Document("", "text"),), (), "en")),
    ]
    broken = [defect_example("a.jsonl, line 7: the record has no `query`")]
    return validated(
        {"train": train + english * 4 + defects + broken, "eval": records.eval + defects[-1:]},
        {"corpus": records.corpus},
    )


def test_every_defect_is_named_and_the_run_stops(
    bad: Artifacts, passed: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(InputError, match="The data gate refuses the data; fix them") as refusal,
    ):
        run_gate(bad | {"previous": [passed]}, tmp_path, max_missing_positives=0.001)
    assert "split eval: queries that have a positive without an id: 1, such as 'nameless'" in str(
        refusal.value
    )
    assert "more problems, all in the log" in str(refusal.value)
    found = {record.getMessage() for record in caplog.records}
    assert {
        "Data gate: training data, split train: records that cannot be used: 1, such as a.jsonl, line 7: "
        "the record has no `query`.",
        "Data gate: training data, split train: the language `sw` of the schema has vanished, examples left: "
        "0.",
        "Data gate: training data, split train: the share of the language `en` drifted from 20.0% to 58.6%, "
        "by more than 10.0%.",
        "Data gate: training data, split train: queries that are empty: 1, such as 'empty'.",
        "Data gate: training data, split train: queries that have no positive: 1, such as 'lonely'.",
        "Data gate: training data, split train: judgements whose document is not in the corpus: 1 of 926 "
        "(0.1%), such as 'lost' with 'nowhere'; more than `gate.max_missing_positives`, 0.1%.",
    } <= found
    # A record that could not be read lacks every feature: that is said once.
    assert not [sentence for sentence in found if "`query`: " in sentence]
    assert not (tmp_path / "training-train.pb").exists()


def test_drift_is_judged_by_the_thresholds(bad: Artifacts, passed: Any, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(InputError):
        run_gate(bad | {"previous": [passed]}, tmp_path, training_drift=0.9)
    assert not [record for record in caplog.records if "drifted" in record.getMessage()]


def test_a_refresh_checks_only_the_data_it_uses(
    bad: Artifacts, passed: Any, records: Records, tmp_path: Path
) -> None:
    """It ignores training data, but keeps their last statistics for the next full run."""
    from tfx.types import artifact_utils

    good_eval = write_examples(tmp_path / "examples", {"train": [], "eval": records.eval})
    (examples,) = bad["training_examples"]
    for file in Path(artifact_utils.get_split_uri([good_eval], "eval")).iterdir():
        Path(artifact_utils.get_split_uri([examples], "eval"), file.name).write_bytes(file.read_bytes())
    inputs = bad | {"previous": [passed]}
    gate = run_gate(inputs, tmp_path / "gate", splits=("eval",))
    kept, before = (Path(own.uri, "training-train.pb").read_bytes() for own in (gate, passed))
    assert kept == before
    assert json.loads(gate.get_string_custom_property("missing_positives")) == {}


def test_deleted_documents_are_reported_and_tolerated_up_to_a_limit(
    good: Artifacts, records: Records, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judged = {parse_example(record, "und").positives[0].id for record in records.eval}
    deleted = sorted(judged)[:3]
    rest = [record for record in records.corpus if example_gen.parse_document(record).id not in deleted]
    inputs = good | {"corpus_examples": [write_examples(tmp_path / "corpus", {"corpus": rest})]}
    with caplog.at_level(logging.WARNING):
        gate = run_gate(inputs, tmp_path / "gate", splits=("eval",))
    missing = json.loads(gate.get_string_custom_property("missing_positives"))["eval"]
    assert (missing["count"], missing["judgements"]) == (9, 180)
    assert "9 of 180 (5.0%), such as" in caplog.text
    assert "left out of the evaluation" in caplog.text
    with pytest.raises(InputError, match=r"9 of 180 \(5.0%\).*more than `gate.max_missing_positives`, 4.0%"):
        run_gate(inputs, tmp_path / "refused", splits=("eval",), max_missing_positives=0.04)


def test_unknown_thresholds_are_refused() -> None:
    from tfx.types import channel_utils

    from tfx_pipeline.components.data_gate import DataGate, DataGateSpec

    channels = {
        name: channel_utils.as_channel([parameter.type()])
        for name, parameter in DataGateSpec.INPUTS.items()
        if not parameter.optional
    }
    with pytest.raises(InputError, match="did you mean `training_drift`"):
        DataGate(**channels, thresholds='{"training_drft": 0.2}')
    assert DataGate(**channels).outputs["gate"].type is DataGateArtifact


@pytest.mark.slow
def test_a_run_on_bad_data_stops_at_the_gate(repository: Path, tiny_corpus: Any, tmp_path: Path) -> None:
    """From a bad line in a file to the sentence that the user reads."""
    from small_atlas import copy_vocabulary, small_config, write_small_atlas

    from tfx_pipeline.runners.local import run_pipeline

    data = write_small_atlas(repository / "examples" / "atlas", tmp_path / "data")
    (train,) = data.rglob("train.tsv")
    lines = train.read_text().splitlines()
    query, document, _ = lines[-1].split("\t")
    train.write_text("\n".join([*lines, f"{query}\t{document}\tmany\n"]))
    config = small_config(data, tmp_path / "root", copy_vocabulary(tiny_corpus.tokenizer, tmp_path))
    with pytest.raises(InputError) as stopped:
        run_pipeline(config)
    assert "The component DataGate failed: The data gate refuses the data; fix them" in str(stopped.value)
    assert "training data, split train: records that cannot be used: 1, such as " in str(stopped.value)
    wrong = f"train.tsv, line {len(lines) + 1}: a judgement ends with an integer grade"
    assert wrong in str(stopped.value)
    assert not Path(config.serving_folder).exists()
    assert not (tmp_path / "root" / "Trainer").exists()
