"""A collection is validated, evaluated, pushed and rolled back by the DAG like a single model."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from artifacts_on_disk import new_artifact, push_model, write_examples
from tfx.types import standard_artifacts

from tfx_pipeline import storage
from tfx_pipeline.artifacts import refusals
from tfx_pipeline.components import serving_smoke_test
from tfx_pipeline.components.pusher import newest_version
from tfx_pipeline.components.retrieval_evaluator import RetrievalEvaluatorExecutor
from tfx_pipeline.components.retriever_exporter import _partitions
from tfx_pipeline.components.serving_validator import ServingValidatorExecutor
from tfx_pipeline.config import PipelineConfig, ServingCheckSettings
from tfx_pipeline.data.example_gen import document_example
from tfx_pipeline.withdrawal import _name_another
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.exported_collection import ExportedCollection
from xtr_tf.files import StorageError, changed_files
from xtr_tf.retriever.collection_file import read_collection
from xtr_tf.retriever.model_card import card_of_collection, read_card
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.tfrecords import serialize_example
from xtr_tf.vectors.folders import Folder


@pytest.fixture
def model(collection_base: Path, tmp_path: Path) -> Any:
    """The collection as RetrieverExporter leaves it."""
    artifact = new_artifact(standard_artifacts.Model, tmp_path / "model")
    serving = tmp_path / "model" / "Format-Serving"
    shutil.copytree(collection_base, serving)
    entries = read_collection(serving / "collection.json").partitions
    card_of_collection([read_card(serving / entry.path / "1") for entry in entries]).write(serving)
    return artifact


def push(model: Any, folder: Path, base: str = "") -> Any:
    return push_model(model, folder, base or str(folder / "serving"))


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_card_of_a_collection_sums_its_partitions(model: Any, collection_base: Path) -> None:
    card = read_card(Path(model.uri, "Format-Serving"))
    collection = read_collection(collection_base / "collection.json")
    assert card.corpus["documents"] == collection.documents
    assert card.corpus["tokens"] == card.index["num_tokens"] == collection.tokens
    assert card.corpus["languages"] == collection.languages
    assert card.encoder["fingerprint"] == collection.encoder


def test_a_collection_is_pushed_whole_and_once(model: Any, tmp_path: Path) -> None:
    pushed = push(model, tmp_path)
    serving = tmp_path / "serving"
    version = pushed.get_string_custom_property("pushed_version")
    assert pushed.get_string_custom_property("pushed_destination") == str(serving / version)
    collection = read_collection(serving / "collection.json")
    assert collection.version == int(version)
    assert (serving / version / "collection.json").read_bytes() == (serving / "collection.json").read_bytes()
    assert sorted(path.name for path in serving.iterdir()) == [
        *(version, "collection.json", "partition-0", "partition-1")
    ]
    for entry in collection.partitions:
        place = serving / entry.path / version
        assert changed_files(place) == []
        assert [path.name for path in place.parent.iterdir()] == [version]
    # What servers load answers.
    assert ExportedCollection(serving).encode_queries(["highest mountain"])[0].vectors.size
    before = listed(serving)
    again = push(model, tmp_path)
    assert again.get_string_custom_property("pushed_version") == version
    assert listed(serving) == before


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called with the target of every copied file."""
    watchers: list[Any] = []
    copy = tf.io.gfile.copy

    def watched(source: str, target: str, overwrite: bool = False) -> None:
        for watcher in watchers:
            watcher(target)
        copy(source, target, overwrite)

    monkeypatch.setattr("tensorflow.io.gfile.copy", watched)
    return watchers


@pytest.mark.parametrize("remote", [False, True])
def test_the_file_that_names_a_collection_is_written_last(
    model: Any, tmp_path: Path, copying: list[Any], remote: bool
) -> None:
    base = "ram://last/serving" if remote else str(tmp_path / "serving")
    seen = []
    copying.append(lambda target: seen.append(tf.io.gfile.exists(f"{base}/collection.json")))
    push(model, tmp_path, base)
    assert seen
    assert not any(seen)
    assert tf.io.gfile.exists(f"{base}/collection.json")
    assert newest_version(base).startswith(f"{base}/")


@pytest.mark.parametrize("remote", [False, True])
def test_a_failed_push_keeps_the_last_collection(
    model: Any, tmp_path: Path, copying: list[Any], remote: bool
) -> None:
    """The disk runs full in the middle of the second partition."""
    base = "ram://full/serving" if remote else str(tmp_path / "serving")

    def listed() -> list[str]:
        return sorted(f"{folder}/{name}" for folder, _, names in tf.io.gfile.walk(base) for name in names)

    def fill_up(target: str) -> None:
        if "partition-1" in target and target.endswith("saved_model.pb"):
            raise OSError(28, "No space left on device", target)

    push(model, tmp_path, base)
    before = listed()
    copying.append(fill_up)
    card = Path(model.uri, "Format-Serving", "model_card.json")
    card.write_text(json.dumps(json.loads(card.read_text()) | {"metrics": {"other": 1.0}}))
    with pytest.raises(StorageError, match="The disk is full"):
        push(model, tmp_path, base)
    assert listed() == before


def test_a_collection_that_lacks_a_partition_is_not_pushed(model: Any, tmp_path: Path) -> None:
    shutil.rmtree(Path(model.uri, "Format-Serving", "partition-1"))
    with pytest.raises(InputError, match="A partition of the collection has no model; nothing was pushed"):
        push(model, tmp_path)
    assert listed(tmp_path / "serving") == []


def test_a_rollback_returns_to_the_previous_version(model: Any, tmp_path: Path) -> None:
    card = Path(model.uri, "Format-Serving", "model_card.json")
    first, second, third = (_push_another(model, card, number, tmp_path) for number in range(3))
    assert first < second < third
    serving = tmp_path / "serving"
    _name_another(serving / str(second))  # not the one that answers
    assert read_collection(serving / "collection.json").version == third
    _name_another(serving / str(third))
    assert read_collection(serving / "collection.json").version == second
    shutil.rmtree(serving / str(first))
    _name_another(serving / str(second))
    assert not (serving / "collection.json").exists()


def _push_another(model: Any, card: Path, number: int, folder: Path) -> int:
    card.write_text(json.dumps(json.loads(card.read_text()) | {"metrics": {"number": number}}))
    return int(push(model, folder).get_string_custom_property("pushed_version"))


def validate(model: Any, folder: Path, **parameters: float) -> Any:
    blessing = new_artifact(standard_artifacts.InfraBlessing, folder)
    ServingValidatorExecutor().Do(
        {"model": [model]}, {"blessing": [blessing]}, {"parameters": json.dumps(parameters)}
    )
    return blessing


def test_a_collection_that_servers_can_serve_is_blessed(model: Any, tmp_path: Path) -> None:
    # A machine that does other things at the same time may be slow.
    blessing = validate(model, tmp_path / "good", latency_ms=60_000, rounds=1)
    assert refusals(blessing) == []
    trial = json.loads(Path(blessing.uri, "trial.json").read_text())
    assert trial["answers"] > 2
    assert trial["latency_ms"] > 0


def test_a_partition_that_is_not_the_one_of_the_file_is_named(
    collection_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the second one is served, because the first would take as long again."""
    monkeypatch.setattr(serving_smoke_test, "_ACCEPT_SECONDS", 2.0)  # it is refused however long one waits
    collection = read_collection(collection_base / "collection.json")
    first, second = collection.partitions
    changed = (first, dataclasses.replace(second, fingerprint="0" * 64))
    (refused,) = serving_smoke_test._test_partition(
        collection_base / second.path / "1",
        dataclasses.replace(collection, partitions=changed),
        1,
        ServingCheckSettings(latency_ms=60_000, rounds=1),
    ).problems
    assert refused.startswith("partition 1: ")


def test_a_partition_that_cannot_be_loaded_is_named(model: Any, tmp_path: Path) -> None:
    Path(model.uri, "Format-Serving", "partition-0", "1", "saved_model.pb").write_bytes(b"nothing")
    refused = refusals(validate(model, tmp_path / "blessing"))
    assert refused
    assert all(reason.startswith("partition 0: ") for reason in refused)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Has artifacts copied as if from an object store; gives what was here at the same time."""
    here: list[set[str]] = [set()]
    monkeypatch.setattr("tfx_pipeline.storage.is_remote", lambda uri: "Format-Serving" in uri)
    fetch = storage.local_input

    @contextlib.contextmanager
    def counted(uri: str) -> Iterator[Path]:
        with fetch(uri) as folder:
            here.append(here[-1] | {uri})
            yield folder
            here.append(here[-1] - {uri})

    monkeypatch.setattr("tfx_pipeline.components.retrieval_evaluator.local_input", counted)
    return here


def test_a_collection_is_evaluated_like_a_model(
    model: Any, tiny_corpus: Any, tmp_path: Path, remote: list[set[str]]
) -> None:
    documents = [
        Document(record.id, record.text, record.title, record.language) for record in tiny_corpus.documents
    ]
    queries = [
        serialize_example(TrainingExample(f"q{number}", own.text, (own,), language=own.language))
        for number, own in enumerate(documents[::7])
    ]
    evaluation = new_artifact(standard_artifacts.ModelEvaluation, tmp_path / "evaluation")
    blessing = new_artifact(standard_artifacts.ModelBlessing, tmp_path / "blessing")
    RetrievalEvaluatorExecutor().Do(
        {
            "model": [model],
            "examples": [write_examples(tmp_path / "examples", {"train": queries[:1], "eval": queries})],
            "corpus": [write_examples(tmp_path / "corpus", {"corpus": map(document_example, documents)})],
        },
        {"evaluation": [evaluation], "blessing": [blessing]},
        {"thresholds": json.dumps({"min_average": 0.1, "exact_queries": 5, "bm25": False})},
    )
    assert refusals(blessing) == []
    report = json.loads(Path(evaluation.uri, "report.json").read_text())
    (dataset,) = report["datasets"]
    # An exact index in partitions finds what exact search finds.
    assert dataset["exact_check"]["overlap_at_10"] == pytest.approx(1.0, abs=0.05)
    # One partition at a time, and nothing else of it.
    assert {len(uris) for uris in remote} == {0, 1}
    assert {Path(uri).parent.name for uris in remote for uri in uris} == {"partition-0", "partition-1"}


def test_there_are_never_more_partitions_than_documents(directories: Path, tiny_corpus: Any) -> None:
    tokens, documents = len(tiny_corpus.vectors), len(tiny_corpus.documents)
    for most, count in ((tokens, 1), (tokens - 1, 2), (-(-tokens // 5), 5), (1, documents), (0, 1)):
        assert _partitions(Folder(str(directories / "exact")), most) == count


def test_the_partition_size_does_not_change_the_index() -> None:
    config = PipelineConfig()
    assert config.index.tokens_per_partition == 150_000_000
    assert not hasattr(config.index.of_index, "tokens_per_partition")
    with pytest.raises(InputError, match=r"`index\.tokens_per_partition` must be positive"):
        type(config.index)(tokens_per_partition=0)
