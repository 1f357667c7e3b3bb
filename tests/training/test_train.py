"""Whole runs: stopping and continuing, starting from other models, and what ends a run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml

from xtr_tf.config.loading import load_config, to_mapping
from xtr_tf.config.model import TokenizerConfig, TokenizerSettings
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.batches import taught_dataset
from xtr_tf.training.data.teacher_vectors import TaughtStream
from xtr_tf.training.dev_evaluation import DevEvaluation
from xtr_tf.training.losses.objectives import vector_distances
from xtr_tf.training.progress import InterruptionFlag, TrainingInterruptedError
from xtr_tf.training.run_folder import RunRecord
from xtr_tf.training.strategy import check_topology, find_libtpu
from xtr_tf.training.train import initial_encoder, train


def weights(directory: Path) -> dict[str, np.ndarray]:
    return load_encoder(directory)[0].get_canonical_weights()


def assert_identical(ours: Path, theirs: Path) -> None:
    first, second = weights(ours), weights(theirs)
    for name, weight in first.items():
        np.testing.assert_array_equal(weight, second[name], err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(base_run, tmp_path_factory) -> Path:
    """Six steps without a stop."""
    output = tmp_path_factory.mktemp("uninterrupted")
    training = dataclasses.replace(base_run.training, output=str(output))
    return train(dataclasses.replace(base_run, training=training))


def test_too_few_examples_are_refused(tiny_run, tmp_path):
    pair = {"query": "where?", "language": "en", "positive": "here"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n{}\n")
    run = tiny_run()
    data = dataclasses.replace(run.data, train=(SourceConfig(str(tmp_path / "pairs.jsonl")),))
    with pytest.raises(InputError, match="Received: 1 usable examples, batch_size 8"):
        train(dataclasses.replace(run, data=data))
    single = dataclasses.replace(run.training, batch_size=1, output=str(tmp_path / "single"))
    with pytest.raises(InputError, match="without hard negatives has no other document"):
        train(dataclasses.replace(run, data=data, training=single))


def test_training_changes_the_weights_and_leaves_what_it_should(uninterrupted, base_run):
    start = Encoder(base_run.encoder, seed=0).get_canonical_weights()
    trained = weights(uninterrupted)
    assert all(np.isfinite(weight).all() for weight in trained.values())
    assert all((trained[name] != start[name]).any() for name in start)
    folder = uninterrupted.parent
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoints", "config.yaml", "encoder", "tensorboard"
    ]  # fmt: skip
    assert yaml.safe_load((folder / "config.yaml").read_text())["training"]["steps"] == 6
    assert any((folder / "tensorboard").iterdir())


def test_a_stopped_run_continues_to_bit_identical_weights(tiny_run, uninterrupted, monkeypatch):
    """A signal in the third step: the step is finished, a checkpoint is written."""
    import xtr_tf.training.train as module

    original = module.TrainingProgress.update

    def signal_at_three(self, step, metrics):
        original(self, step, metrics)
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(module.TrainingProgress, "update", signal_at_three)
    config = tiny_run()
    with pytest.raises(TrainingInterruptedError, match="stopped at step 3"):
        train(config)
    monkeypatch.undo()
    assert_identical(train(config), uninterrupted)


def test_steps_kept_on_the_device_give_the_same(tiny_run, uninterrupted):
    """Up to rounding: the loop is another graph, which TensorFlow optimises in another way."""
    ours, theirs = weights(train(tiny_run(steps_per_loop=4, checkpoint_every=5))), weights(uninterrupted)
    for name, weight in ours.items():
        np.testing.assert_allclose(weight, theirs[name], atol=1e-4, err_msg=name)


@pytest.mark.slow
def test_a_teachers_vectors_are_enough_to_train_on(tiny_run, tmp_path, atlas_store):
    """Tokens come to point where the teacher's do; a run that is continued is one without a stop."""
    config = tiny_run(steps=12, learning_rate=3e-2, steps_per_loop=4, checkpoint_every=4)
    data = DataConfig(teacher_vectors=(str(atlas_store),), teacher_texts=16)
    config = dataclasses.replace(config, data=data)
    stopped = dataclasses.replace(config.training, output=str(tmp_path / "stopped"))
    for steps in (8, 12):
        train(dataclasses.replace(config, training=dataclasses.replace(stopped, steps=steps)))
    assert_identical(train(config), tmp_path / "stopped" / "encoder")

    def distance(encoder: Encoder, tokenizer: Tokenizer) -> float:
        stream = TaughtStream([str(atlas_store)], 1.0, seed=0, dim=16, batch_size=32)
        (batch,) = taught_dataset(stream, tokenizer, 32, range(1))
        return float(vector_distances(encoder(batch.ids), batch.targets))

    trained = load_encoder(tmp_path / "stopped" / "encoder")
    assert distance(*trained) < 0.7 * distance(*initial_encoder(config))


def test_examples_and_a_teachers_vectors_are_learned_from_together(tiny_run, uninterrupted, atlas_store):
    """With a weight of 0 it is the run without a teacher; with another weight it is not."""
    runs = []
    for weight in (0.0, 1.0):
        config = tiny_run(f"weight_{weight}")
        data = dataclasses.replace(config.data, teacher_vectors=(str(atlas_store),), teacher_texts=4)
        loss = dataclasses.replace(config.loss, teacher_vector_weight=weight)
        runs.append(weights(train(dataclasses.replace(config, data=data, loss=loss))))
    for name, weight in weights(uninterrupted).items():
        np.testing.assert_allclose(runs[0][name], weight, atol=1e-4, err_msg=name)
    assert np.abs(runs[1]["projection/kernel"] - runs[0]["projection/kernel"]).max() > 1e-3


@pytest.fixture(scope="module")
def atlas_store(repository, tmp_path_factory) -> Path:
    """A teacher with one vector per character of some passages."""
    folder = tmp_path_factory.mktemp("store")
    lines = (repository / "examples" / "atlas" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:32]
    texts = [json.loads(line)["text"][:60] for line in lines]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    table = np.random.default_rng(0).normal(size=[997, 16])
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, texts)]))
    np.save(folder / "spans.npy", np.concatenate([[(i, i + 1) for i in range(len(text))] for text in texts]))
    vectors = [table[ord(character) % 997] for text in texts for character in text]
    np.save(folder / "vectors.npy", np.array(vectors, np.float16))
    return folder


@pytest.mark.slow
def test_a_killed_run_continues_to_bit_identical_weights(tiny_run, uninterrupted, tmp_path):
    config = tiny_run(checkpoint_every=1)
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(to_mapping(config)))
    command = [sys.executable, "-c", "from xtr_tf.cli import main; main()", "train", str(file)]
    process = subprocess.Popen(command)
    checkpoints = Path(config.training.output) / "checkpoints"
    deadline = time.monotonic() + 300
    while process.poll() is None and not list(checkpoints.glob("step_*/checkpoint.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert list(checkpoints.glob("step_*"))
    subprocess.run(command, check=True)
    assert_identical(Path(config.training.output) / "encoder", uninterrupted)


def test_starts_from_an_earlier_encoder(tiny_run, uninterrupted):
    config = tiny_run(initial_encoder=str(uninterrupted), steps=1, learning_rate=1e-6)
    config = dataclasses.replace(
        config,
        tokenizer=dataclasses.replace(config.tokenizer, model=""),
        encoder=dataclasses.replace(config.encoder, vocabulary_size=5, dropout=0.0),
    )
    before = weights(uninterrupted)
    for name, weight in weights(train(config)).items():
        np.testing.assert_allclose(weight, before[name], atol=1e-5)


def test_what_a_run_does_not_say_of_the_tokenizer_is_the_checkpoints(base_run, tmp_path):
    """An encoder imported with `--no-lowercase` must not be trained on lower-cased text."""
    stored = Tokenizer(
        TokenizerConfig(base_run.tokenizer.model, lowercase=False, query_length=9, document_length=20)
    )
    save_encoder(tmp_path / "cased", Encoder(base_run.encoder), stored)
    run = load_config(
        None, [f"training.initial_encoder={tmp_path / 'cased'}", "tokenizer.document_length=12"]
    )
    _, tokenizer = initial_encoder(run)
    assert tokenizer.config.lowercase is False
    assert (tokenizer.config.query_length, tokenizer.config.document_length) == (9, 12)
    said = dataclasses.replace(run, tokenizer=TokenizerSettings(lowercase=True))
    assert initial_encoder(said)[1].config.lowercase is True
    assert tokenizer.model_bytes == stored.model_bytes


@pytest.fixture(scope="module")
def trained_in_bfloat16(base_run, tmp_path_factory) -> Path:
    output = str(tmp_path_factory.mktemp("bfloat16"))
    training = dataclasses.replace(base_run.training, output=output, steps=1, dtype="mixed_bfloat16")
    return train(dataclasses.replace(base_run, training=training))


def test_what_is_trained_in_bfloat16_computes_in_float32_afterwards(trained_in_bfloat16, base_run):
    """Training computes with eight bits, as the vectors of both show; what is loaded does not."""
    encoder, tokenizer = load_encoder(trained_in_bfloat16)
    assert encoder.config.dtype == "float32"
    settings = dataclasses.replace(base_run.training, dtype="mixed_bfloat16", initial_encoder="")
    in_training, _ = initial_encoder(dataclasses.replace(base_run, training=settings))
    assert in_training.config.dtype == "mixed_bfloat16"
    in_training.set_canonical_weights(encoder.get_canonical_weights())
    ids = tokenizer.tokenize_documents(["A lake in the mountains of Peru."])
    exact, rounded = encoder(ids).numpy(), in_training(ids).numpy()
    cosines = np.sum(exact * rounded, axis=-1)[ids.numpy() != 0]
    assert np.abs(exact - rounded).max() > 2**-16
    assert cosines.min() > 1 - 2**-6


@pytest.mark.slow
def test_a_model_trained_in_bfloat16_is_served_in_float32(trained_in_bfloat16, tmp_path):
    import xtr_tf

    passages = ["A lake in the mountains of Peru.", "A river in Egypt.", "The capital of Japan."]
    live = xtr_tf.load(trained_in_bfloat16).index(passages, progress=False)
    live.save(tmp_path / "models", version=1, progress=False)
    with xtr_tf.open(tmp_path / "models") as served:
        for query in passages:
            ours, theirs = served.search(query, top_k=3), live.search(query, top_k=3)
            assert ours.ids == theirs.ids
            np.testing.assert_allclose([hit.score for hit in ours], [hit.score for hit in theirs], atol=1e-4)


@pytest.mark.parametrize(("tpu", "host"), [("local", "0"), ("local", "3"), ("my-tpu", "3")])
def test_the_hosts_of_a_tpu_do_not_train_separate_models(tiny_run, monkeypatch, tpu, host):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    monkeypatch.setenv("TPU_WORKER_ID", host)
    monkeypatch.setenv("TPU_TOPOLOGY", "4x4")
    with pytest.raises(InputError, match=f"'{tpu}' on host {host} of 4, topology 4x4"):
        train(tiny_run(distribution="tpu", tpu=tpu))


def test_a_part_of_a_tpu_is_not_taken_for_the_whole():
    """Where no environment variable tells of other hosts, the mesh does: here one host of four."""
    cores = [[[x, y, 0, 0] for x in range(2) for y in range(2)]]
    check_topology(tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 1], device_coordinates=cores), "local")
    part = tf.tpu.experimental.Topology(mesh_shape=[4, 4, 1, 1], device_coordinates=cores)
    with pytest.raises(InputError, match=r"Received: 'local' with 4 of 16 cores, topology 4x4x1x1"):
        check_topology(part, "local")


def test_hosts_without_python_train_on_the_same_batches(tiny_run, monkeypatch, tmp_path):
    """As on a TPU that is not on this machine: texts are tokenized before the first step."""
    import xtr_tf.training.train as module

    expected = weights(train(tiny_run(steps=2, output=str(tmp_path / "texts"))))
    monkeypatch.setattr(module, "hosts_run_python", lambda strategy: False)
    directory = train(tiny_run(steps=2, output=str(tmp_path / "tokenized")))
    assert (directory.parent / "tokenized").is_dir()
    for name, weight in weights(directory).items():
        np.testing.assert_array_equal(weight, expected[name], err_msg=name)


def test_the_tpu_library_is_looked_for_where_tensorflow_does(tmp_path, monkeypatch):
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "libtpu.so"))
    assert find_libtpu() is None
    (tmp_path / "libtpu.so").touch()
    assert find_libtpu() == tmp_path / "libtpu.so"
    monkeypatch.delenv("TPU_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/absent:{tmp_path}")
    assert find_libtpu() == tmp_path / "libtpu.so"
    package = tmp_path / "site" / "libtpu"  # as in the wheel
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "libtpu.so").touch()
    monkeypatch.syspath_prepend(package.parent)
    assert find_libtpu() == package / "libtpu.so"


def test_any_keras_optimizer_can_take_the_place_of_ours(tiny_run, base_run, monkeypatch):
    import keras

    import xtr_tf.training.train as module

    def sgd(config, variables):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(list(variables))
        return optimizer

    monkeypatch.setattr(module, "make_optimizer", sgd)
    start = Encoder(base_run.encoder, seed=0).get_canonical_weights()
    for name, weight in weights(train(tiny_run(steps=2))).items():
        assert np.isfinite(weight).all()
        assert (weight != start[name]).any(), name


def test_the_best_on_the_development_set_is_kept(tiny_run, repository, monkeypatch):
    """Three evaluations, of which the first is made to count as the best."""
    measured = []
    evaluate = DevEvaluation.__call__

    def fall(self, encode):
        measured.append(evaluate(self, encode))
        return {**measured[-1], "nDCG@10": 1 - len(measured) / 10}

    monkeypatch.setattr(DevEvaluation, "__call__", fall)
    dev = SourceConfig(path=str(repository / "examples" / "atlas"), split="dev")
    config = tiny_run(
        steps=3, evaluate_every=1, keep_checkpoints=1, learning_rate=5.0, dev_k_prime=50, gradient_clip=1.0
    )
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, dev=(dev,)))
    directory = train(config)
    monkeypatch.undo()
    lines = (directory.parent / "dev_metrics.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    assert [entry["step"] for entry in history] == [1, 2, 3]
    kept = {path.name for path in (directory.parent / "checkpoints").iterdir()}
    assert kept == {"step_000000001", "step_000000003"}
    encoder, tokenizer = load_encoder(directory)
    left = DevEvaluation(config.data, tokenizer, k_prime=50)(encoder)["nDCG@10"]
    assert left == pytest.approx(measured[0]["nDCG@10"], abs=1e-4)
    assert left != pytest.approx(measured[2]["nDCG@10"], abs=1e-4)
    by_language = [name for name in history[0] if name.count("/") > 1]
    assert any(name.endswith("/en/MRR@10") for name in by_language)


def test_a_run_that_broke_down_continues_as_its_message_says(tiny_run):
    """The checkpoint is from before the damage, and a smaller rate may take the place of the larger one."""
    broken = tiny_run(learning_rate=1e38, warmup_steps=0, checkpoint_every=1, steps=4)
    output = Path(broken.training.output)
    with pytest.raises(
        InputError, match=r"weights after step 1 is not finite.*failed_batch.*it begins again"
    ):
        train(broken)
    assert not list(output.glob("checkpoints/step_*"))

    train(tiny_run(learning_rate=1e-2, warmup_steps=0, checkpoint_every=1, steps=2))
    with pytest.raises(InputError, match=r"after step 3 is not finite.*it continues after step 2") as error:
        train(broken)
    failed = json.loads((output / "failed_batch.json").read_text())
    assert failed["step"] == 3
    assert len(failed["examples"]) == 8
    assert all("atlas: " in name for name in failed["examples"])
    assert str(output / "failed_batch.json") in str(error.value)
    assert max(path.name for path in output.glob("checkpoints/step_*")) == "step_000000002"

    directory = train(tiny_run(learning_rate=1e-3, gradient_clip=1.0, warmup_steps=0, steps=4))
    assert all(np.isfinite(weight).all() for weight in weights(directory).values())
    assert max(path.name for path in output.glob("checkpoints/step_*")) == "step_000000004"


@pytest.mark.parametrize("spoiled", ["loss", "gradient_norm"])
def test_a_step_that_is_not_finite_is_not_saved(tiny_run, monkeypatch, spoiled):
    import xtr_tf.training.train as module

    run_steps = module.TrainingStep._run_steps

    def spoil(self, iterator, count):
        metrics = run_steps(self, iterator, count)
        return metrics | {spoiled: metrics[spoiled] + float("nan")}

    monkeypatch.setattr(module.TrainingStep, "_run_steps", spoil)
    config = tiny_run(steps=2, checkpoint_every=1)
    with pytest.raises(InputError, match=r"The (loss|gradient) of step 1 is not finite"):
        train(config)
    assert not list(Path(config.training.output).glob("checkpoints/step_*"))


def test_another_configuration_does_not_continue_a_run(tiny_run, uninterrupted):
    config = tiny_run(steps=1)
    train(config)
    changed = dataclasses.replace(config, loss=dataclasses.replace(config.loss, k_train=3))
    with pytest.raises(InputError, match=r"loss\.k_train changed"):
        train(changed)
    # The best value so far can only be compared with values of the same metric.
    with pytest.raises(InputError, match=r"training\.dev_metric, training\.dev_k_prime changed"):
        train(tiny_run(steps=1, dev_metric="MRR@10", dev_k_prime=7))


def test_a_run_of_an_earlier_version_continues(base_run, tmp_path):
    """Its configuration lacks settings that were added later, whose defaults are the earlier behaviour."""
    record = RunRecord(tmp_path)
    record.start(base_run)
    (record.checkpoints / "step_000000001").mkdir(parents=True)
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    del written["training"]["schedule"], written["data"]["teacher_vectors"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    ended = dataclasses.replace(base_run, training=dataclasses.replace(base_run.training, decay_steps=2))
    record.start(ended)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    changed = dataclasses.replace(base_run.training, schedule="inverse_sqrt")
    with pytest.raises(InputError, match=r"training\.schedule changed"):
        record.start(dataclasses.replace(base_run, training=changed))


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"gradient_cache_chunk": 3}, "gradient_cache_chunk"),
        ({"distribution": "multi_worker"}, "TF_CONFIG"),
        ({"distribution": "tpu"}, "No TPU was found"),
        ({"initial_encoder": "absent"}, "absent"),
    ],
)
def test_settings_that_cannot_be_used_are_input_errors(tiny_run, training, message):
    with pytest.raises(InputError, match=message):
        train(tiny_run(**training))


def test_a_second_signal_is_not_swallowed():
    previous = signal.getsignal(signal.SIGTERM)
    with InterruptionFlag() as flag:
        assert not flag.raised
        os.kill(os.getpid(), signal.SIGTERM)
        assert flag.raised
        assert signal.getsignal(signal.SIGTERM) is previous
    assert signal.getsignal(signal.SIGTERM) is previous
