"""Tokenized examples give the same batches as texts, and `run_fn` trains on them and resumes."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from small_atlas import copy_vocabulary

from tests.support.workers import exit_codes, logs, started_workers, wait_for
from tfx_pipeline.components.trainer import run_fn
from tfx_pipeline.components.transform import preprocessing_fn
from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.config.loading import to_mapping
from xtr_tf.config.training import DataConfig, RunConfig, SourceConfig, TrainingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.folder import load_encoder, save_encoder
from xtr_tf.training.data.batches import batch_dataset
from xtr_tf.training.data.sampling import TrainingData
from xtr_tf.training.data.sources import open_source
from xtr_tf.training.data.tfrecords import serialize_example
from xtr_tf.training.data.tokenized import TokenizedData

KINDS = ("positive", "negative")
LISTS = ("query_tokens", *(f"{kind}_{name}" for kind in KINDS for name in ("tokens", "keys")))


def examples() -> list[dict[str, Any]]:
    """Queries with one or two positives and none to three negatives; one document twice."""
    shared = {"id": "d0", "title": "Titel", "text": "ein Text", "score": 0.5}
    return [
        {
            "id": f"q{number}",
            "query": f"  Frage NUMMER {number % 5}",
            "language": "de" if number % 3 else "en",
            "positives": [{"id": f"p{number}", "title": "", "text": f"Antwort {number}"}, shared][
                : 1 + number % 2
            ],
            "negatives": [{"text": f"falsch {number} {other}"} for other in range(number % 4)],
        }
        for number in range(12)
    ]


@pytest.fixture(scope="module")
def folder(tiny_corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same examples as texts and, through a real TensorFlow Transform, as ids."""
    folder = tmp_path_factory.mktemp("tokenized")
    copy_vocabulary(tiny_corpus.tokenizer, folder)
    records = [json.dumps(example) for example in examples()]
    (folder / "texts.jsonl").write_text("\n".join(records) + "\n")
    source = open_source(SourceConfig(str(folder / "texts.jsonl")), BadRecords(limit=0))[0]
    parsed = [tf.train.Example.FromString(serialize_example(source[i])) for i in range(len(source))]
    rows = [{name: _values(f) for name, f in example.features.feature.items()} for example in parsed]
    specification = {
        name: tf.io.VarLenFeature(tf.float32 if name.endswith("scores") else tf.string) for name in rows[0]
    }
    tokenizer = {**to_mapping(tiny_corpus.tokenizer.config), "model": str(folder / "vocabulary.model")}
    with tft_beam.Context(temp_dir=str(folder / "tmp")):
        metadata = tft.DatasetMetadata.from_feature_spec(specification)
        (transformed, _), _ = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, {"tokenizer": tokenizer, "initial_encoder": ""})
        )
    by_id = {row["id"]: row for row in transformed}
    for split, numbers in (("train", range(len(source))), ("eval", range(8, len(source)))):
        (folder / f"Split-{split}").mkdir()
        with tf.io.TFRecordWriter(str(folder / f"Split-{split}" / "part-0.gz"), "GZIP") as writer:
            for index in numbers:
                writer.write(_example(by_id[source[index].id.encode()]))
    return folder


def _values(feature: Any) -> list[Any]:
    return list(feature.bytes_list.value) or list(feature.float_list.value)


def _example(row: dict[str, Any]) -> bytes:
    features = {}
    for name, value in row.items():
        values = np.ravel(value)
        if name in LISTS:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        elif name.endswith("scores"):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_batches_of_ids_equal_those_of_texts(folder: Path, tiny_corpus) -> None:
    def config(path: str, kind: str) -> DataConfig:
        source = SourceConfig(str(folder / path), kind)  # type: ignore[arg-type]
        return DataConfig(train=(source,), hard_negatives=2, language_temperature=2.0)

    tokenizer = tiny_corpus.tokenizer
    texts = TrainingData(config("texts.jsonl", "jsonl"), seed=3)
    ids = TokenizedData(config("Split-train/*", "tokenized"), tokenizer.config, seed=3)
    assert len(ids) == len(texts) == 12
    assert ids.max_positives == texts.max_positives == 2
    for static in (True, False):
        expected = list(batch_dataset(texts, tokenizer, 6, range(5), static_shapes=static))
        found = list(batch_dataset(ids, tokenizer, 6, range(5), static_shapes=static))
        for a, b in zip(expected, found, strict=True):
            assert np.array_equal(a.query_ids, b.query_ids)
            assert np.array_equal(a.document_ids, b.document_ids)
            assert np.array_equal(a.teacher_scores, b.teacher_scores, equal_nan=True)
            assert np.array_equal(same_keys(a), same_keys(b))


def test_ids_are_read_by_tensorflow_and_texts_by_python(folder: Path, tiny_corpus) -> None:
    """TPU hosts run none of our Python, so they can only make batches of ids."""
    tokenizer = tiny_corpus.tokenizer
    tokenized = SourceConfig(str(folder / "Split-train" / "*"), "tokenized")
    ids = TokenizedData(DataConfig(train=(tokenized,), hard_negatives=2), tokenizer.config, seed=3)
    texts = TrainingData(DataConfig(train=(SourceConfig(str(folder / "texts.jsonl")),)), seed=3)
    assert python_operations(batch_dataset(ids, tokenizer, 6, range(5))) == set()
    assert python_operations(batch_dataset(texts, tokenizer, 6, range(5))) == {"PyFuncStateless"}


def python_operations(dataset: tf.data.Dataset) -> set[str]:
    """The operations of a dataset's graph, and of the functions in it, that call Python."""
    graph = tf.compat.v1.GraphDef.FromString(
        tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor).numpy()
    )
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert {"ZipDataset", "ParallelMapDatasetV2"} & {node.op for node in nodes}
    return {node.op for node in nodes if "PyFunc" in node.op}


def same_keys(batch: Any) -> np.ndarray:
    """`[B, P, documents, 3]`: which fingerprints of positives and documents are equal, and not none."""
    positives, documents = batch.positive_keys.numpy()[:, :, None], batch.document_keys.numpy()[None, None]
    return np.logical_and((positives == documents).all(-1), (positives != 0).any(-1))


def test_examples_of_other_lengths_are_refused(folder: Path, tiny_corpus) -> None:
    config = DataConfig(train=(SourceConfig(str(folder / "Split-train" / "*"), "tokenized"),))
    lengths = dataclasses.replace(tiny_corpus.tokenizer.config, document_length=32)
    with pytest.raises(InputError, match=r"16 and 32; tokenize them again\. Received: 16 and 64"):
        TokenizedData(config, lengths, seed=0)


def arguments(folder: Path, tiny_corpus, out: Path, base: str | None = None, **training: Any) -> Any:
    settings = {"steps": 2, "batch_size": 4, "checkpoint_every": 1, "log_every": 1, **training}
    run = RunConfig(
        tokenizer=dataclasses.replace(tiny_corpus.tokenizer.config, model=""),
        encoder=tiny_corpus.encoder.config,
        training=TrainingConfig(**settings),
    )
    return types.SimpleNamespace(
        train_files=[str(folder / "Split-train" / "*")],
        eval_files=[str(folder / "Split-eval" / "*")],
        base_model=base,
        serving_model_dir=str(out / "model" / "Format-Serving"),
        model_run_dir=str(out / "run"),
        custom_config={
            "run": to_mapping(run),
            "vocabulary": str(folder / "vocabulary.model"),
            "vocabulary_hash": "",
            "initial_encoder": "",
            "work": str(out / "work"),
        },
    )


def test_training_writes_an_encoder_and_its_record(folder: Path, tiny_corpus, tmp_path: Path) -> None:
    run_fn(arguments(folder, tiny_corpus, tmp_path, evaluate_every=1, dtype="mixed_bfloat16"))
    encoder, tokenizer = load_encoder(tmp_path / "model" / "Format-Serving")
    assert tokenizer.fingerprint == tiny_corpus.tokenizer.fingerprint
    assert encoder.config == tiny_corpus.encoder.config
    record = tmp_path / "run"
    assert any((record / "tensorboard").iterdir())
    curve = [json.loads(line) for line in (record / "dev_metrics.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [1, 2]
    assert {"nDCG@10", "eval/de/nDCG@10", "eval/en/nDCG@10"} <= curve[0].keys()
    assert (record / "checkpoints" / "step_000000002").is_dir()
    assert not any((tmp_path / "work" / "training").iterdir())


# What TFX does in each worker's container: its own executor, with the artifacts of one execution.
TRAINER = """
import json, sys
from tfx.components.trainer.executor import GenericExecutor
from tfx.types import artifact_utils, standard_artifacts

given = json.load(open(sys.argv[1]))
kinds = {"examples": "Examples", "model": "Model", "model_run": "ModelRun"}
artifacts = {name: getattr(standard_artifacts, kind)() for name, kind in kinds.items()}
for name, artifact in artifacts.items():
    artifact.uri = given[name]
artifacts["examples"].split_names = artifact_utils.encode_split_names(["train", "eval"])
outputs = {name: [artifacts[name]] for name in ("model", "model_run")}
GenericExecutor().Do({"examples": [artifacts["examples"]]}, outputs, given["properties"])
"""


@pytest.mark.slow
def test_two_workers_train_publish_once_and_survive_a_kill(folder: Path, tiny_corpus, tmp_path: Path) -> None:
    """TFX's executor in two processes: if one is killed, the other stops too, and both can resume."""

    def command(steps: int) -> list[str]:
        call = arguments(folder, tiny_corpus, tmp_path, steps=steps)
        properties = {"train_args": "{}", "eval_args": "{}", "run_fn": f"{run_fn.__module__}.run_fn"}
        given = {
            "examples": str(folder),
            "model": str(tmp_path / "model"),
            "model_run": call.model_run_dir,
            "properties": {**properties, "custom_config": json.dumps(call.custom_config)},
        }
        (tmp_path / "given.json").write_text(json.dumps(given))
        return [sys.executable, "-c", TRAINER, str(tmp_path / "given.json")]

    def reached() -> int:
        saved = tmp_path.glob("work/training/*/run/checkpoints/step_*/checkpoint.json")
        return max((int(path.parent.name.removeprefix("step_")) for path in saved), default=0)

    with started_workers(command(steps=100_000), tmp_path) as workers:
        wait_for(reached, workers)
        workers[1].kill()
        assert all(exit_codes(workers))
    assert not (tmp_path / "model").exists()
    before = reached()
    with started_workers(command(steps=before + 2), tmp_path) as workers:
        assert exit_codes(workers) == [0, 0], logs(tmp_path)
    assert f"continues after step {before} of {before + 2}" in logs(tmp_path)[0]
    load_encoder(tmp_path / "model" / "Format-Serving")
    assert (tmp_path / "run" / "checkpoints" / f"step_{before + 2:09d}").is_dir()
    assert not any((tmp_path / "work" / "training").iterdir())


@pytest.mark.slow
def test_stopped_training_resumes(
    folder: Path, tiny_corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import xtr_tf.training.train as training

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_fn(arguments(folder, tiny_corpus, whole, steps=4))

    save = training.CheckpointStore.save

    def save_and_die(self: Any, step: int, metric: float = np.nan) -> None:
        save(self, step, metric)
        if step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training.CheckpointStore, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            run_fn(arguments(folder, tiny_corpus, parts, steps=4))
    assert not (parts / "model").exists()
    run_fn(arguments(folder, tiny_corpus, parts, steps=4))
    names = [path.name for path in (parts / "run" / "tensorboard").iterdir()]
    assert len(names) == 2  # one file of curves for each part
    found, expected = (
        load_encoder(out / "model" / "Format-Serving")[0].get_canonical_weights() for out in (parts, whole)
    )
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name], weight, atol=1e-6)


def test_only_files_of_the_run_are_uploaded(
    folder: Path, tiny_corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(config: RunConfig, **_: Any) -> None:
        output = Path(config.training.output)
        output.mkdir()
        (output / "checkpoint").touch()
        raise RuntimeError

    monkeypatch.setattr("tfx_pipeline.components.trainer.train", stop)
    call = arguments(folder, tiny_corpus, tmp_path)
    call.custom_config["work"] = f"ram://{tmp_path.name}/work"
    with pytest.raises(RuntimeError):
        run_fn(call)
    walked = tf.io.gfile.walk(call.custom_config["work"])
    assert [name for _, _, names in walked for name in names] == ["checkpoint"]


def test_a_base_model_is_fine_tuned(folder: Path, tiny_corpus, tmp_path: Path) -> None:
    save_encoder(tmp_path / "base" / "encoder", tiny_corpus.encoder, tiny_corpus.tokenizer)
    base = str(tmp_path / "base" / "Format-Serving")
    run_fn(arguments(folder, tiny_corpus, tmp_path, base, steps=1, learning_rate=1e-12))
    trained, _ = load_encoder(tmp_path / "model" / "Format-Serving")
    expected = tiny_corpus.encoder.get_canonical_weights()
    for name, weight in trained.get_canonical_weights().items():
        np.testing.assert_allclose(weight, expected[name], atol=1e-5)


def test_a_base_model_with_another_vocabulary_is_refused(folder: Path, tiny_corpus, tmp_path: Path) -> None:
    save_encoder(tmp_path / "base" / "encoder", tiny_corpus.encoder, tiny_corpus.tokenizer)
    call = arguments(folder, tiny_corpus, tmp_path, str(tmp_path / "base" / "Format-Serving"))
    other = tmp_path / "other.model"
    from xtr_tf.model.vocabulary import train_vocabulary

    train_vocabulary([str(example) for example in examples()] * 5, 330, other)
    call.custom_config["vocabulary"] = str(other)
    with pytest.raises(InputError, match="another vocabulary"):
        run_fn(call)
